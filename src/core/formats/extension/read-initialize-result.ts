import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../json-value.ts";
import { withoutUndefined } from "../without-undefined.ts";
import {
  type ExtensionManifest,
  type ExtensionPhase,
  extensionPhases,
  type OperationDeclaration,
} from "./manifest.ts";
import { readOperationSchema } from "./operation-schema.ts";

export type ReadInitializeResult =
  | { readonly ok: true; readonly manifest: ExtensionManifest; readonly protocolVersion: string }
  /** What is wrong, as a sentence without its end. */
  | { readonly ok: false; readonly message: string };

/** Reads what an extension says of itself when it is initialised. Members that are not known are left out. */
export function readInitializeResult(value: Json): ReadInitializeResult {
  if (!isJsonObject(value)) return wrong("the result of initialize is not an object");
  const { name, version, protocolVersion, description, operations } = value;
  if (typeof protocolVersion !== "string" || protocolVersion === "") {
    return wrong("protocolVersion is missing, or is not a text");
  }
  if (typeof name !== "string" || name.trim() === "") return wrong("name is missing, or is not a text");
  if (typeof version !== "string") return wrong("version is missing, or is not a text");
  if (!isJsonObject(operations)) return wrong("operations is missing, or is not an object");
  const read = Object.entries(operations).map(([key, operation]) => [key, readOperation(operation)] as const);
  if (read.length === 0) return wrong("operations is empty: the extension can do nothing");
  const declared: [string, OperationDeclaration][] = [];
  for (const [key, operation] of read) {
    if (typeof operation === "string") return wrong(`operations[${JSON.stringify(key)}]${operation}`);
    declared.push([key, operation]);
  }
  return {
    ok: true,
    protocolVersion,
    manifest: withoutUndefined({
      name,
      version,
      description: textOf(description),
      protocol: "json-rpc" as const,
      operations: Object.fromEntries(declared),
    }),
  };
}

function wrong(message: string): ReadInitializeResult {
  return { ok: false, message };
}

/** The operation, or what is wrong with it, to be put behind its name. */
function readOperation(value: Json): OperationDeclaration | string {
  if (!isJsonObject(value)) return " is not an object";
  const { description } = value;
  const params = readOperationSchema(value["params"]);
  if (!params.ok) return `.params ${params.message}`;
  const phases = readPhases(value);
  if (typeof phases === "string") return `.phases ${phases}`;
  return withoutUndefined({ description: textOf(description), params: params.schema, phases });
}

function readPhases({ phases }: JsonObject): readonly ExtensionPhase[] | string {
  if (phases === undefined || phases === null) return extensionPhases;
  const known = extensionPhases.join(", ");
  if (!Array.isArray(phases)) return `must be a list of ${known}`;
  if (phases.length === 0 || !phases.every((phase: Json) => isPhase(phase)))
    return `must be one or more of ${known}`;
  return extensionPhases.filter((phase) => phases.includes(phase));
}

function isPhase(value: Json): boolean {
  return extensionPhases.some((each) => each === value);
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}
