import { exact, isJsonObject, type Json, type JsonObject, mapValues } from "../base/json.ts";
import type { Problem } from "../base/problem.ts";
import { readJson } from "../base/read-json.ts";
import { type ExtensionManifest, type OperationDeclaration, readOperationSchema } from "./manifest.ts";
import { type ExtensionPhase, extensionPhases } from "../model/extension.ts";

export interface InitializeParams {
  readonly protocolVersion: string;
  readonly config?: JsonObject;
}

export interface ExecuteParams {
  readonly operation: string;
  readonly args: JsonObject;
  readonly context: OperationContext;
}

/** What an operation gets besides its arguments. */
export interface OperationContext {
  /** Absolute path of the task's folder. */
  readonly workdir: string;
  /** Absolute path of the trial's own folder. */
  readonly workspace: string;
  readonly phase: ExtensionPhase;
  /** The variables that the task declares. */
  readonly env: Readonly<Record<string, string>>;
  /** How long the host waits, as a Go duration: `90s`, `1500ms`. */
  readonly timeout: string;
  /** The agent's prompt and last answer; absent before it has run. */
  readonly agent?: { readonly prompt: string; readonly output: string };
}

/** Result of `execute`, and what a one-shot program writes. */
export interface OperationResult {
  /** False: what was asked did not hold, or was not done. */
  readonly success: boolean;
  readonly message?: string;
  readonly error?: string;
  readonly outputs?: Readonly<Record<string, Json>>;
}

/** Params of the notification `log`. */
export interface LogParams {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly data?: JsonObject;
}

/** What is wrong, as a sentence without its end. */
interface Refusal {
  readonly ok: false;
  readonly message: string;
}

function refusal(message: string): Refusal {
  return { ok: false, message };
}

/** Reads what an extension says of itself when it is initialised. Unknown members are left out. */
export function readInitializeResult(
  value: Json,
): { readonly ok: true; readonly manifest: ExtensionManifest; readonly protocolVersion: string } | Refusal {
  if (!isJsonObject(value)) return refusal("the result of initialize is not an object");
  const { name, version, protocolVersion, description, operations } = value;
  if (typeof protocolVersion !== "string" || protocolVersion === "")
    return refusal("protocolVersion is missing, or is not a text");
  if (typeof name !== "string" || name.trim() === "") return refusal("name is missing, or is not a text");
  if (typeof version !== "string") return refusal("version is missing, or is not a text");
  if (!isJsonObject(operations)) return refusal("operations is missing, or is not an object");
  const declared: [string, OperationDeclaration][] = [];
  for (const [key, operation] of Object.entries(operations)) {
    const read = readOperation(operation);
    if (typeof read === "string") return refusal(`operations[${JSON.stringify(key)}]${read}`);
    declared.push([key, read]);
  }
  if (declared.length === 0) return refusal("operations is empty: the extension can do nothing");
  const manifest = { name, version, protocol: "json-rpc", operations: Object.fromEntries(declared) } as const;
  return { ok: true, protocolVersion, manifest: { ...manifest, ...describedBy(description) } };
}

function describedBy(description: Json | undefined): { readonly description?: string } {
  return typeof description === "string" ? { description } : {};
}

/** The operation, or what is wrong with it, to be put behind its name. */
function readOperation(value: Json): OperationDeclaration | string {
  if (!isJsonObject(value)) return " is not an object";
  const params = readOperationSchema(value["params"]);
  if (!params.ok) return `.params ${params.message}`;
  const given = value["phases"] ?? extensionPhases;
  const known = extensionPhases.join(", ");
  if (!Array.isArray(given)) return `.phases must be a list of ${known}`;
  const phases = extensionPhases.filter((phase) => given.includes(phase));
  if (phases.length === 0 || !given.every((phase) => phases.some((each) => each === phase)))
    return `.phases must be one or more of ${known}`;
  return { params: params.schema, phases, ...describedBy(value["description"]) };
}

/**
 * Reads the answer of an operation. It is accepted only when it is unambiguous: `success` is true or false, and all
 * other known members have their types. `null` counts as absent, except for `success`. Unknown members are left out.
 */
export function readOperationResult(
  value: unknown,
): { readonly ok: true; readonly result: OperationResult } | Refusal {
  const problems: Problem[] = [];
  const json = readJson(value, { subject: "the result", problems, text: (text) => text });
  const [problem] = problems;
  if (problem !== undefined) return refusal(`the result is not JSON: ${problem.message}`);
  if (!isJsonObject(json)) return refusal(`the result is ${kindOf(json)}, not an object`);
  const { success } = json;
  if (typeof success !== "boolean") {
    const what = success === undefined ? "is missing" : `is ${kindOf(success)}`;
    return refusal(`success ${what}; it must be true or false`);
  }
  const { message, error, outputs } = Object.fromEntries(
    Object.entries(json).filter(([, member]) => member !== null),
  );
  if (message !== undefined && typeof message !== "string")
    return refusal(`message is ${kindOf(message)}, not a text`);
  if (error !== undefined && typeof error !== "string")
    return refusal(`error is ${kindOf(error)}, not a text`);
  if (outputs !== undefined && !isJsonObject(outputs))
    return refusal(`outputs is ${kindOf(outputs)}, not an object`);
  if (success && error !== undefined && error !== "")
    return refusal("success is true, and yet there is an error");
  return { ok: true, result: { success, ...exact({ message, error, outputs }) } };
}

function kindOf(value: Json | undefined): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  if (typeof value === "string") return "a text";
  return value === undefined ? "missing" : "a number";
}

/**
 * The arguments with the defaults that their JSON Schema has for absent members: `default` in `properties`, at any
 * depth, in items of lists too. What is there stays as it is, `null` included. References inside the schema are followed;
 * defaults in alternatives (`anyOf`, `oneOf`, `if`) are not, since it is unknown which one applies.
 */
export function fillDefaults(schema: JsonObject, args: JsonObject): JsonObject {
  return fillObject(schema, args, { root: schema, filling: [] });
}

interface Filling {
  readonly root: JsonObject;
  /** Schemas whose defaults the value came from; those of one that refers to itself would never end. */
  readonly filling: readonly JsonObject[];
}

function fill(schema: Json | undefined, value: Json, context: Filling): Json {
  const found = follow(schema, context.root) ?? {};
  if (!Array.isArray(value)) return isJsonObject(value) ? fillObject(found, value, context) : value;
  const { prefixItems, items } = found;
  const first: readonly Json[] = Array.isArray(prefixItems) ? prefixItems : [];
  return value.map((item: Json, index) => fill(index < first.length ? first[index] : items, item, context));
}

function fillObject(schema: JsonObject, value: JsonObject, { root, filling }: Filling): JsonObject {
  const { properties } = follow(schema, root) ?? {};
  if (!isJsonObject(properties)) return value;
  const own = mapValues(value, (member, key) =>
    Object.hasOwn(properties, key) ? fill(properties[key], member, { root, filling }) : member,
  );
  const added = Object.entries(properties).flatMap(([key, property]): [string, Json][] => {
    const written = isJsonObject(property) && Object.hasOwn(property, "default") ? property : undefined;
    const found = written ?? follow(property, root);
    const { default: usual } = found ?? {};
    if (Object.hasOwn(value, key) || found === undefined || usual === undefined || filling.includes(found))
      return [];
    return [[key, fill(property, usual, { root, filling: [...filling, found] })]];
  });
  return { ...own, ...Object.fromEntries(added) };
}

/** The schema that a reference inside the document leads to, after at most 20 references in a row. */
function follow(schema: Json | undefined, root: JsonObject): JsonObject | undefined {
  let found = schema;
  for (let count = 0; count < 20; count += 1) {
    if (!isJsonObject(found)) return undefined;
    const { $ref: reference } = found;
    if (typeof reference !== "string") return found;
    const keys = reference.split("/").slice(1);
    if (!/^#(?:\/|$)/.test(reference)) return undefined;
    found = keys
      .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"))
      .reduce<Json | undefined>(
        (value, key) => (isJsonObject(value) && Object.hasOwn(value, key) ? value[key] : undefined),
        root,
      );
  }
  return undefined;
}

const nanosecondsInMs = 1_000_000;

/** Writes milliseconds as a Go duration: `90s`, `1500ms`; what is finer in `ns`. What is not above zero is `0s`. */
export function goDurationText(ms: number): string {
  if (!(ms > 0)) return "0s";
  if (!Number.isInteger(ms)) return `${Math.max(1, Math.round(ms * nanosecondsInMs))}ns`;
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}
