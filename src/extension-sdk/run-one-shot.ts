import { readFile } from "node:fs/promises";
import type { ExtensionPhase } from "../core/formats/extension/manifest.ts";
import type { OperationResult } from "../core/formats/extension/protocol.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/json-value.ts";
import type { Session } from "./session.ts";

/** `action NAME --input FILE` or `check NAME --input FILE`, read. */
export interface OneShotCall {
  readonly verb: "action" | "check";
  readonly operation: string | undefined;
  /** Path of a file with `{args, context, config?}`. */
  readonly input: string | undefined;
  /** JSON of the config; it goes before that of the file. */
  readonly config: string | undefined;
}

/** Phases that a verb stands for when the input has no phase, most likely first. */
const phasesOf: Readonly<Record<OneShotCall["verb"], readonly ExtensionPhase[]>> = {
  action: ["setup", "cleanup"],
  check: ["verify"],
};

/**
 * Runs one operation, with `open` before it and `close` after it. Throws when it cannot be known whether what was asked
 * holds: for an input that cannot be read, and as `open`, `Session.execute` and `close` do.
 */
export async function runOneShot<C, R>(
  session: Session<C, R>,
  { verb, operation, input, config }: OneShotCall,
): Promise<OperationResult> {
  if (operation === undefined) throw new Error(`${verb} needs the name of an operation`);
  if (input === undefined) throw new Error(`${verb} ${operation} needs --input FILE`);
  const document = await readInput(input);
  const settings = config === undefined ? document["config"] : parse(config, "--config");
  await session.open(objectOf(settings, "config"));
  try {
    const args = objectOf(document["args"], "args");
    const context = document["context"];
    return await session.execute({ operation, args, context, phases: phasesOf[verb] });
  } finally {
    await session.close();
  }
}

async function readInput(path: string): Promise<JsonObject> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw new Error(`the input ${path} cannot be read`, { cause: error });
  });
  return objectOf(parse(text, `the input ${path}`), `the input ${path}`);
}

/** Reads JSON. Throws an Error that begins with `what`, the text's name. */
export function parse(text: string, what: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    throw new Error(`${what} is not valid JSON`, { cause: error });
  }
}

/** Throws an Error unless the value is an object; one that is left out, or null, is empty. */
export function objectOf(value: Json | undefined, what: string): JsonObject {
  if (value === undefined || value === null) return {};
  if (isJsonObject(value)) return value;
  throw new Error(`${what} must be an object`);
}
