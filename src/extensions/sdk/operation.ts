import { inspect } from "node:util";
import * as z from "zod";
import type { OperationDeclaration } from "../manifest.ts";
import type { LogParams, OperationContext, OperationResult } from "../protocol.ts";
import { formatKeyPath, isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { type ExtensionPhase, extensionPhases } from "../../model/extension.ts";
import { errorCodes } from "../../model/error-codes.ts";

/** An operation as its author writes it. */
export interface OperationDefinition<S extends z.ZodType, R> {
  /** One sentence for those who write tasks. */
  readonly description?: string;
  /** Arguments, an object. Hosts see it as JSON Schema, so it cannot have what JSON has not, such as dates. */
  readonly params: S;
  /** Phases in which it can be used. Default: all. */
  readonly phases?: readonly ExtensionPhase[];
  /**
   * Carries it out. `args` are validated, with defaults. Without an annotation `context` has no resources; with
   * `context: OperationRun<Db>` the operation is for extensions whose `open` gives a `Db`.
   */
  readonly run: (
    args: z.output<S>,
    context: OperationRun<R>,
  ) => Promise<OperationOutcome | void> | OperationOutcome | void;
}

/** An operation of extensions that have resources of type `R`. */
export interface Operation<R> {
  readonly declaration: OperationDeclaration;
  /**
   * Validates the arguments and runs it. Throws RpcError for invalid arguments, and what the operation throws except
   * OperationFailed.
   */
  readonly execute: (args: JsonObject, context: OperationRun<R>) => Promise<OperationResult>;
}

/** Defines an operation. Throws an Error when `params` is not an object or has no JSON Schema, or `phases` is empty. */
export function operation<S extends z.ZodType, R = unknown>(
  definition: OperationDefinition<S, R>,
): Operation<R> {
  const { description, params, phases = extensionPhases, run } = definition;
  if (phases.length === 0) throw new Error("phases is empty: an operation needs at least one");
  return {
    declaration: {
      ...(description === undefined ? {} : { description }),
      params: paramsSchema(params),
      phases,
    },
    execute: async (args, context) => {
      const checked = await z.safeParseAsync(params, args);
      if (checked.success) return resultOf(() => run(checked.data, context));
      const problems = describeIssues(checked.error.issues);
      throw new RpcError("invalidParams", `the arguments are not valid: ${problems}`);
    },
  };
}

export type LogLevel = LogParams["level"];

/** Sends a message to the record of the trial; it has no effect on the result. */
export type Log = (level: LogLevel, message: string, data?: JsonObject) => void;

/** Passed to `open` of an extension besides its config. */
export interface StartContext {
  readonly log: Log;
  /** Aborts when the host has gone, or ends the program. */
  readonly signal: AbortSignal;
}

/** Passed to an operation besides its arguments; `R` is the result of `open`. */
export interface OperationRun<R> extends OperationContext {
  readonly resources: R;
  /** Aborts when the time is up, the host has gone, or ends the program. Pass it to everything that waits. */
  readonly signal: AbortSignal;
  /** `timeout` in milliseconds. */
  readonly timeoutMs: number;
  readonly log: Log;
}

/** The result of an operation; undefined means success. */
export interface OperationOutcome {
  /** Default: true. False: the check failed, or the action was not carried out. */
  readonly success?: boolean;
  readonly message?: string;
  /** Values for later steps. */
  readonly outputs?: Readonly<Record<string, Json>>;
}

/**
 * Thrown by an operation when the check failed: `success: false` with this message, which is a finding about the agent. Any
 * other error is answered with the JSON-RPC error -32603 and its text: the step is an error, not a finding.
 */
export class OperationFailed extends Error {
  readonly outputs: Readonly<Record<string, Json>> | undefined;

  constructor(
    message: string,
    options: { readonly outputs?: Readonly<Record<string, Json>>; readonly cause?: unknown } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.name = "OperationFailed";
    this.outputs = options.outputs;
  }
}

/**
 * The JSON Schema (draft 2020-12) of what an operation takes, before defaults are filled in. It always says that it is an
 * object. Throws an Error for an invalid one.
 */
export function paramsSchema(params: z.ZodType): JsonObject {
  const schema = z.toJSONSchema(params, { io: "input", target: "draft-2020-12", override: withoutSafeRange });
  // What zod hangs on it besides, such as functions, is not JSON.
  const { $schema: _dialect, ...plain } = JSON.parse(JSON.stringify(schema)) as JsonObject;
  if (plain["type"] === "object") return plain;
  if (saysObject(plain)) return { type: "object", ...plain };
  throw new Error(`params must be an object, such as z.object({ … }), but is ${JSON.stringify(plain)}`);
}

/** The limits of whole numbers that a program can tell apart say nothing to those who write tasks. */
function withoutSafeRange({ jsonSchema }: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}

/** Whether all that a schema allows are objects, as far as it says so itself. */
function saysObject(schema: Json): boolean {
  if (!isJsonObject(schema)) return false;
  if (schema["type"] === "object") return true;
  const { anyOf, oneOf, allOf } = schema;
  const every = [anyOf, oneOf].some((list) => isFilled(list) && list.every(saysObject));
  return every || (isFilled(allOf) && allOf.some(saysObject));
}

function isFilled(list: Json | undefined): list is readonly Json[] {
  return Array.isArray(list) && list.length > 0;
}

/**
 * Runs an operation and gives the answer for its host. Throws whatever it throws but OperationFailed, and a
 * TypeError for an outcome that is none.
 */
export async function resultOf(
  run: () => Promise<OperationOutcome | void> | OperationOutcome | void,
): Promise<OperationResult> {
  try {
    return checked(await run());
  } catch (error) {
    if (!(error instanceof OperationFailed)) throw error;
    const { message, outputs } = error;
    return asJson({ success: false, message, ...(outputs === undefined ? {} : { outputs }) });
  }
}

/** A program that is not checked by a compiler may return anything, and `false` must not count as success. */
function checked(outcome: unknown): OperationResult {
  if (outcome === undefined || outcome === null) return { success: true };
  if (typeof outcome !== "object" || Array.isArray(outcome)) {
    throw new TypeError(`the operation returned ${JSON.stringify(outcome)} instead of an outcome`);
  }
  const {
    success = true,
    message,
    outputs,
  }: { success?: unknown; message?: unknown; outputs?: unknown } = outcome;
  if (typeof success !== "boolean")
    throw new TypeError("the operation returned a success that is neither true nor false");
  return asJson({
    success,
    ...(message === undefined ? {} : { message: typeof message === "string" ? message : inspect(message) }),
    ...(outputs === undefined ? {} : { outputs: outputs as Readonly<Record<string, Json>> }),
  });
}

/** As the host will read it. A value that is not JSON is reported here, where its operation is known. */
function asJson(result: OperationResult): OperationResult {
  try {
    return JSON.parse(JSON.stringify(result)) as OperationResult;
  } catch (error) {
    throw new TypeError(`the outputs are not JSON: ${errorText(error)}`, { cause: error });
  }
}

/** What is wrong with a value, each with the place where it is; values are not repeated. */
export function describeIssues(issues: readonly z.core.$ZodIssue[]): string {
  return issues.map(describe).join("; ");
}

function describe(issue: z.core.$ZodIssue): string {
  const path = issue.path.map((key) => (typeof key === "symbol" ? key.toString() : key));
  const message = issue.code === "invalid_union" ? unionMessage(issue) : issue.message;
  return path.length === 0 ? message : `${formatKeyPath(path)}: ${message}`;
}

function unionMessage({ errors, message }: z.core.$ZodIssueInvalidUnion): string {
  const branches = errors.map((branch) => describeIssues(branch)).filter((text) => text !== "");
  return branches.length === 0 ? message : `none of the ways to write it fits (${branches.join(" | ")})`;
}

/** An extension as its author writes it; `C` is its config, `R` what it keeps between operations. */
export interface ExtensionDefinition<C, R> {
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  /** Settings, an object. Without it the config is handed to `open` as it came. */
  readonly config?: z.ZodType<C>;
  /** Runs once, before the first operation. When it throws, the host learns that the extension could not start. */
  readonly open?: (config: C, start: StartContext) => R | Promise<R>;
  /** Runs once, when the program ends in any regular way, if `open` has succeeded. */
  readonly close?: (resources: R) => void | Promise<void>;
  readonly operations: Readonly<Record<string, Operation<R>>>;
}

/**
 * To be thrown by an operation when it cannot know whether what was asked holds, since what it needs does not work: a
 * server that cannot be reached or that refuses, a program that is not installed. The host is answered with the JSON-RPC
 * error -32000 and this message, so that the step is an error and never a finding about the agent. Other errors than
 * OperationFailed mean the same; this one says that it was expected.
 */
export class EnvironmentError extends Error {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.name = "EnvironmentError";
  }
}

/** Codes of JSON-RPC, and `failed` of the extensions' protocol: it cannot be known whether what was asked holds. */
export const rpcCodes = {
  invalidJson: errorCodes.parse,
  invalidRequest: errorCodes.invalidRequest,
  unknownMethod: errorCodes.methodNotFound,
  invalidParams: errorCodes.invalidParams,
  internal: errorCodes.internal,
  failed: errorCodes.server,
} as const;

/** What a request is answered with instead of a result. */
export class RpcError extends Error {
  readonly code: number;

  constructor(kind: keyof typeof rpcCodes, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "RpcError";
    this.code = rpcCodes[kind];
  }
}

/** Most causes that are reported. */
const maxCauses = 5;

/** The message of anything that was thrown, with the messages of its causes that it does not repeat. */
export function errorText(error: unknown): string {
  const texts: string[] = [];
  for (let next: unknown = error, left = maxCauses; next !== undefined && left > 0; left -= 1) {
    const text = next instanceof Error ? ownText(next) : typeof next === "string" ? next : inspect(next);
    if (!texts.some((before) => before.includes(text))) texts.push(text);
    next = next instanceof Error ? next.cause : undefined;
  }
  return texts.join(": ");
}

/** Some errors, such as those of a connection tried at several addresses, have their text in their parts only. */
function ownText(error: Error): string {
  if (error.message !== "") return error.message;
  const parts: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  return parts.map(errorText).join("; ") || error.name;
}
