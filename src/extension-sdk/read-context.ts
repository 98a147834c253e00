import { resolve } from "node:path";
import { type ExtensionPhase, extensionPhases } from "../core/formats/extension/manifest.ts";
import type { OperationContext } from "../core/formats/extension/protocol.ts";
import { parseGoDuration } from "../core/formats/go-duration.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/json-value.ts";

/** How long an operation may take when the host does not say, in milliseconds: as long as one of a task's steps. */
const usualTimeoutMs = 300_000;

/** The context as operations see it, complete. `phase` is undefined where the host says none. */
export interface ReadContext extends Omit<OperationContext, "phase"> {
  readonly phase: ExtensionPhase | undefined;
  readonly timeoutMs: number;
}

/** Reads the context of a call. Hosts leave out what they do not know, so everything has a value that stands for it. */
export function readContext(value: Json | undefined): ReadContext {
  const context = isJsonObject(value) ? value : {};
  const workdir = resolve(textOf(context["workdir"]) ?? ".");
  const timeout = textOf(context["timeout"]);
  const timeoutMs = timeout === undefined ? undefined : parseGoDuration(timeout);
  const agent = agentOf(context["agent"]);
  return {
    workdir,
    workspace: resolve(textOf(context["workspace"]) ?? workdir),
    phase: extensionPhases.find((phase) => phase === context["phase"]),
    env: textsOf(context["env"]),
    timeout: timeoutMs === undefined || timeout === undefined ? `${usualTimeoutMs / 1000}s` : timeout,
    timeoutMs: timeoutMs ?? usualTimeoutMs,
    ...(agent === undefined ? {} : { agent }),
  };
}

function agentOf(value: Json | undefined): OperationContext["agent"] {
  if (!isJsonObject(value)) return undefined;
  return { prompt: textOf(value["prompt"]) ?? "", output: textOf(value["output"]) ?? "" };
}

function textsOf(value: Json | undefined): Readonly<Record<string, string>> {
  const texts = Object.entries(isJsonObject(value) ? value : ({} satisfies JsonObject));
  return Object.fromEntries(
    texts.flatMap(([name, text]) => (typeof text === "string" ? [[name, text]] : [])),
  );
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
