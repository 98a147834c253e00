import { fitsPlainly } from "../../checks/plain-schema.ts";
import type { SchemaCheck, SchemaError, ValidateSchema } from "../../checks/tool-result.ts";
import { formatSchemaError } from "../../checks/tool-result.ts";
import { asObject, isJsonObject, type Json } from "../../formats/json.ts";
import type { ToolUse } from "../tool-uses.ts";

/** Why a call does not fit what its server declared. */
export type CallFaultCause =
  | "unknown tool"
  | "unknown key"
  | "missing key"
  | "wrong type"
  | "unknown value"
  | "invalid value";

export interface CallFault {
  readonly cause: CallFaultCause;
  /** What is wrong, as a sentence. */
  readonly message: string;
  /** JSON Pointer to what is wrong in the arguments; empty: all of them. */
  readonly pointer: string;
}

const causes: Readonly<Record<string, CallFaultCause>> = {
  additionalProperties: "unknown key",
  unevaluatedProperties: "unknown key",
  required: "missing key",
  dependentRequired: "missing key",
  type: "wrong type",
  enum: "unknown value",
  const: "unknown value",
};

type Arguments = Pick<ToolUse, "args" | "declared">;

/** A call with what is wrong with it. */
export interface CheckedCall<T extends Arguments> {
  readonly use: T;
  /** Empty: nothing. Undefined where it is not known: the tool was not declared, or its schema cannot be used. */
  readonly faults: readonly CallFault[] | undefined;
}

/**
 * What is wrong with the arguments of calls, by the `inputSchema` of their tools. A key that the schema does not name counts as
 * unknown where the schema lets any be, since the server cannot know what it means.
 */
export async function callFaults<T extends Arguments>(
  calls: readonly T[],
  validateSchema: ValidateSchema,
): Promise<readonly CheckedCall<T>[]> {
  // A promise for each call that certainly fits would take longer than to see that it does.
  const doubtful = calls.filter((use) => !fitsPlainly(schemaOf(use) ?? true, use.args));
  const checks = await Promise.all(
    doubtful.map(async (use) => [use, await validateSchema(schemaOf(use) ?? true, use.args)] as const),
  );
  const byUse = new Map(checks);
  return calls.map((use) => ({ use, faults: faultsOf(use, byUse.get(use)) }));
}

function schemaOf({ declared }: Arguments): Json | undefined {
  return declared?.definition["inputSchema"];
}

/** `check` is absent where the arguments certainly fit. */
function faultsOf(use: Arguments, check: SchemaCheck | undefined): readonly CallFault[] | undefined {
  const schema = schemaOf(use);
  if (schema === undefined || check?.status === "unusable") return undefined;
  if (check?.status === "invalid") return check.errors.map(faultOf);
  return unnamedKeys(schema, use.args).map((key) => {
    return {
      cause: "unknown key",
      message: `${JSON.stringify(key.slice(0, 80))} is no argument of the tool`,
      pointer: `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`,
    };
  });
}

function faultOf(error: SchemaError): CallFault {
  return {
    cause: causes[error.keyword] ?? "invalid value",
    message: formatSchemaError(error, "the arguments"),
    pointer: error.instancePath,
  };
}

/** Keywords by which a schema may name keys elsewhere than in its `properties`. */
const otherKeywords = [
  "$ref",
  "$dynamicRef",
  "allOf",
  "anyOf",
  "oneOf",
  "if",
  "additionalProperties",
  "patternProperties",
  "propertyNames",
  "dependentSchemas",
  "unevaluatedProperties",
];

/** Keys of arguments that a schema neither names nor speaks of. */
function unnamedKeys(schema: Json, args: Json): readonly string[] {
  if (!isJsonObject(schema) || otherKeywords.some((keyword) => Object.hasOwn(schema, keyword))) return [];
  const { properties } = schema;
  if (!isJsonObject(properties)) return [];
  return Object.keys(asObject(args)).filter((key) => !Object.hasOwn(properties, key));
}
