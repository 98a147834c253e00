import { parentPort } from "node:worker_threads";
import { type ErrorObject, Ajv } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import type { SchemaCheck } from "../core/grade/grade.ts";

/** One value to validate; answered with a {@link SchemaCheck} under the same id. */
export interface SchemaRequest {
  readonly id: number;
  readonly schema: unknown;
  readonly value: unknown;
}

const options = { strict: false, allErrors: true, validateFormats: true } as const;
const shownErrors = 5;

parentPort?.on("message", ({ id, schema, value }: SchemaRequest) => {
  parentPort?.postMessage({ id, check: validate(schema, value) });
});

function validate(schema: unknown, value: unknown): SchemaCheck {
  try {
    const ajv = isDraft7(schema) ? new Ajv(options) : new Ajv2020(options);
    formats.default(ajv);
    const run = ajv.compile(schema as object);
    if (run(value) === true) return { status: "valid" };
    return { status: "invalid", errors: (run.errors ?? []).slice(0, shownErrors).map(describe) };
  } catch (error) {
    return { status: "unusable", reason: error instanceof Error ? error.message : String(error) };
  }
}

/** MCP schemas are JSON Schema 2020-12 unless `$schema` says otherwise (MCP 2025-11-25, "JSON Schema usage"). */
function isDraft7(schema: unknown): boolean {
  return (
    typeof schema === "object" &&
    schema !== null &&
    "$schema" in schema &&
    typeof schema.$schema === "string" &&
    /draft-0[467]/.test(schema.$schema)
  );
}

function describe(error: ErrorObject): string {
  const detail =
    error.keyword === "additionalProperties" ? ` (${String(error.params["additionalProperty"])})` : "";
  return `${error.instancePath === "" ? "the value" : error.instancePath} ${error.message ?? error.keyword}${detail}`;
}
