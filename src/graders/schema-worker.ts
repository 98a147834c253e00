import { parentPort } from "node:worker_threads";
import type { Ajv, ErrorObject, Options, ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { previewJson } from "../base/read-json.ts";
import type { SchemaCheck, SchemaError } from "../expect/tool-result.ts";
import type { JsonObject } from "../base/json.ts";

/** Values to validate; answered with their checks. */
export interface SchemaRequest {
  readonly schema: unknown;
  readonly values: readonly unknown[];
}

/** `ready` comes once, before the first answer. */
export type WorkerMessage = readonly SchemaCheck[] | "ready";

const options: Options = {
  strict: false,
  allErrors: true,
  // Errors carry the offending value.
  verbose: true,
  // Else "constructor" and the like would count as given in every object.
  ownProperties: true,
  logger: false,
};
const maxShownErrors = 5;
/** Maximum number of errors that a validator collects. */
const maxErrors = 100;
const keptSchemas = 100;
const maxKeptLength = 64 * 1024;
const maxDetailLength = 200;

/** Validators, and the errors of schemas that cannot be compiled, by schema. */
const compiled = new Map<string, ValidateFunction | Error>();

parentPort?.on("message", (request: SchemaRequest) => void answer(request));
parentPort?.postMessage("ready" satisfies WorkerMessage);

async function answer({ schema, values }: SchemaRequest): Promise<void> {
  const compiled = await compiledOf(schema);
  const checks = values.map((value) => validate(compiled, value));
  parentPort?.postMessage(checks satisfies WorkerMessage);
}

/**
 * Makes validators stop collecting errors at a limit: joined references double the errors at each level, and a thread that suddenly runs
 * out of memory ends the process.
 */
function withFewErrors(code: string): string {
  return code
    .replaceAll("vErrors.push(", `vErrors.length < ${maxErrors} && vErrors.push(`)
    .replaceAll(/vErrors\.concat\((\w+\.errors)\)/g, `vErrors.concat($1).slice(0, ${maxErrors})`)
    .replaceAll(/vErrors\.length = (\w+)/g, "vErrors.length = Math.min(vErrors.length, $1)");
}

function validate(run: ValidateFunction | Error, value: unknown): SchemaCheck {
  try {
    if (run instanceof Error) throw run;
    if (run(value)) return { status: "valid" };
    return { status: "invalid", errors: (run.errors ?? []).slice(0, maxShownErrors).map(describe) };
  } catch (error) {
    return { status: "unusable", reason: plainReason(error) };
  }
}

/**
 * The validator of a schema, or the error of one that cannot be compiled. The same few schemas come with every
 * call, and compiling one takes longer than using it a thousand times.
 */
async function compiledOf(schema: unknown): Promise<ValidateFunction | Error> {
  const key = JSON.stringify(schema);
  const known = compiled.get(key) ?? (await compile(schema).catch(toError));
  if (key.length <= maxKeptLength && compiled.size < keptSchemas) compiled.set(key, known);
  return known;
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

async function compile(schema: unknown): Promise<ValidateFunction> {
  if (
    typeof schema !== "boolean" &&
    (typeof schema !== "object" || schema === null || Array.isArray(schema))
  ) {
    throw new Error(`a schema is an object or a boolean, not ${shorten(JSON.stringify(schema))}`);
  }
  const dialect = dialectOf(schema);
  const plain = withoutDialect(schema);
  // Throws for an invalid schema. Only a meta-schema with `$async` gives a promise.
  void (await dialectChecker(dialect)).validateSchema(plain, true);
  // An instance of its own, since the names in one schema must not reach another.
  return (await createAjv(dialect, { validateSchema: false, code: { process: withFewErrors } })).compile(
    plain,
  );
}

/** MCP schemas are JSON Schema 2020-12 unless `$schema` says otherwise (MCP 2025-11-25, "JSON Schema usage"). */
function dialectOf(schema: object | boolean): string {
  if (typeof schema === "boolean" || !("$schema" in schema)) return "2020-12";
  const { $schema } = schema;
  const dialect = /2020-12|2019-09|draft-0[4-7]/.exec(String($schema))?.[0];
  if (dialect === undefined)
    throw new Error(`its $schema names no known dialect: ${JSON.stringify($schema)}`);
  return dialect;
}

/** Validators of schemas themselves, by dialect: compiling the meta-schema takes longer than most schemas. */
const checkers = new Map<string, Ajv>();

async function dialectChecker(dialect: string): Promise<Ajv> {
  const known = checkers.get(dialect) ?? (await createAjv(dialect));
  checkers.set(dialect, known);
  return known;
}

async function createAjv(dialect: string, more: Options = {}): Promise<Ajv> {
  const ajv = await newAjv(dialect, { ...options, ...more });
  formats.default(ajv);
  return ajv;
}

/** The code of older dialects, which few servers use, is loaded on demand. */
async function newAjv(dialect: string, all: Options): Promise<Ajv> {
  if (dialect === "2020-12") return new Ajv2020(all);
  if (dialect === "2019-09") return new (await import("ajv/dist/2019.js")).Ajv2019(all);
  return new (await import("ajv")).Ajv(all);
}

/** Removes the name of the dialect, which is spelt in many ways. */
function withoutDialect(schema: object | boolean): object | boolean {
  if (typeof schema === "boolean" || !("$schema" in schema)) return schema;
  const { $schema: _dialect, ...rest } = schema;
  return rest;
}

function plainReason(error: unknown): string {
  if (error instanceof RangeError && error.message.includes("call stack"))
    return "it refers to itself without end";
  return shorten(error instanceof Error ? error.message : String(error));
}

function describe(error: ErrorObject): SchemaError {
  const { instancePath, keyword, message = keyword, data } = error;
  return {
    instancePath,
    keyword,
    params: error.params as JsonObject,
    message: shorten(message) + detailOf(error),
    ...(messageOnly.has(keyword) ? {} : { actual: previewJson(data) }),
  };
}

/** The parameters of errors that the messages leave out. */
const details: Readonly<Record<string, string>> = {
  additionalProperties: "additionalProperty",
  unevaluatedProperties: "unevaluatedProperty",
  enum: "allowedValues",
  const: "allowedValue",
};

function detailOf({ keyword, params }: ErrorObject): string {
  const name = details[keyword];
  return name === undefined ? "" : ` (${shorten(JSON.stringify(params[name]))})`;
}

/** Keywords whose errors are about a member, or refuse every value, so that the value is not shown. */
const messageOnly: ReadonlySet<string> = new Set([
  "required",
  "dependentRequired",
  "dependencies",
  "additionalProperties",
  "unevaluatedProperties",
  "propertyNames",
  "false schema",
]);

function shorten(text: string): string {
  return text.length > maxDetailLength ? `${text.slice(0, maxDetailLength)}…` : text;
}
