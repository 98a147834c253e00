import type { Json, JsonObject } from "../formats/json.ts";

/** The outcome of validating a value against a JSON Schema. */
export type SchemaCheck =
  | { readonly status: "valid" }
  | { readonly status: "invalid"; readonly errors: readonly SchemaError[] }
  /** The schema itself could not be used, or validation took too long. */
  | { readonly status: "unusable"; readonly reason: string };

/** Validates a value against a JSON Schema, 2020-12 unless the schema names another dialect. Never rejects. */
export type ValidateSchema = (schema: Json, value: Json) => Promise<SchemaCheck>;

/** One way in which a value violates its schema. */
export interface SchemaError {
  /** JSON pointer of the violating part; empty for the whole value. */
  readonly instancePath: string;
  /** The violated keyword, such as `required`. */
  readonly keyword: string;
  /** Details of the keyword as Ajv gives them, such as `missingProperty`. */
  readonly params: JsonObject;
  /** A predicate, such as `must be string`. */
  readonly message: string;
  /** Preview of the violating part; absent where the message says it all. */
  readonly actual?: string;
}

const longestPath = 200;

/** An error as a sentence. `subject` is what the whole value is called. */
export function formatSchemaError(
  { instancePath, message, actual }: SchemaError,
  subject = "the value",
): string {
  const path = instancePath.length > longestPath ? `${instancePath.slice(0, longestPath)}…` : instancePath;
  return `${path || subject} ${message}${actual === undefined ? "" : `, is ${actual}`}`;
}
