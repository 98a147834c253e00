import { isJsonObject, type Json, type JsonObject, withoutUndefined } from "../json.ts";
import type { Problem } from "../problem.ts";
import { readJson } from "../read-json.ts";
import {
  type ExtensionManifest,
  type ExtensionPhase,
  extensionPhases,
  type OperationDeclaration,
} from "./manifest.ts";
import { readOperationSchema } from "./typed-args.ts";

/** Params of `initialize`. */
export interface InitializeParams {
  readonly protocolVersion: string;
  readonly config?: JsonObject;
}

/** Params of `execute`. */
export interface ExecuteParams {
  readonly operation: string;
  readonly args: JsonObject;
  readonly context: OperationContext;
}

/** What an operation is told besides its arguments. */
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
  /** What the agent was told and said last; absent before it has run. */
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

export type ReadOperationResult =
  | { readonly ok: true; readonly result: OperationResult }
  /** What is wrong, as a sentence without its end. */
  | { readonly ok: false; readonly message: string };

/**
 * Reads what an operation answered. It is taken only when there is no doubt about it: `success` is true or false, and all
 * that is said besides has its type. `null` is as if it were absent, except for `success`. Members that are not known are
 * left out.
 */
export function readOperationResult(value: unknown): ReadOperationResult {
  const problems: Problem[] = [];
  const json = readJson(value, { subject: "the result", problems, text: (text) => text });
  const [problem] = problems;
  if (problem !== undefined) return { ok: false, message: `the result is not JSON: ${problem.message}` };
  if (!isJsonObject(json)) return { ok: false, message: `the result is ${kindOf(json)}, not an object` };
  const { success, message, error, outputs } = json;
  if (typeof success !== "boolean") {
    const what = success === undefined ? "is missing" : `is ${kindOf(success)}`;
    return { ok: false, message: `success ${what}; it must be true or false` };
  }
  for (const [name, text] of Object.entries({ message, error })) {
    if (!isAbsent(text) && typeof text !== "string") {
      return { ok: false, message: `${name} is ${kindOf(text)}, not a text` };
    }
  }
  if (!isAbsent(outputs) && !isJsonObject(outputs)) {
    return { ok: false, message: `outputs is ${kindOf(outputs)}, not an object` };
  }
  if (success && typeof error === "string" && error !== "") {
    return { ok: false, message: "success is true, and yet there is an error" };
  }
  return {
    ok: true,
    result: withoutUndefined({
      success,
      message: typeof message === "string" ? message : undefined,
      error: typeof error === "string" ? error : undefined,
      outputs: isJsonObject(outputs) ? outputs : undefined,
    }),
  };
}

function isAbsent(value: Json | undefined): value is null | undefined {
  return value === undefined || value === null;
}

function kindOf(value: Json | undefined): string {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  if (typeof value === "string") return "a text";
  return typeof value === "boolean" ? String(value) : "a number";
}

const nanosecondsInMs = 1_000_000;

/** Writes milliseconds as a Go duration: `90s`, `1500ms`; what is finer in `ns`. What is not above zero is `0s`. */
export function goDurationText(ms: number): string {
  if (!(ms > 0)) return "0s";
  if (!Number.isInteger(ms)) return `${Math.max(1, Math.round(ms * nanosecondsInMs))}ns`;
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}
