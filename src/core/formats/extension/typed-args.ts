import * as z from "zod";
import { anyJson, closedObject } from "../config/config-fields.ts";
import { goDurationPattern, parseGoDuration } from "../go-duration.ts";
import type { Json, JsonObject } from "../json-value.ts";
import { withoutUndefined } from "../without-undefined.ts";
import type { OperationSchema } from "./operation-schema.ts";

/** Names of types, with those of other languages, and what JSON Schema calls them. */
const types = {
  string: "string",
  number: "number",
  integer: "integer",
  boolean: "boolean",
  array: "array",
  object: "object",
  /** A text, such as `90s`. */
  duration: "string",
  any: undefined,
  int: "integer",
  float: "number",
  bool: "boolean",
  list: "array",
  map: "object",
} as const;

const typeNames = Object.keys(types) as (keyof typeof types)[];

const typedArg = closedObject({
  type: z.enum(typeNames).optional().meta({ description: "Kind of the value." }),
  required: z.boolean().optional().meta({ description: "Whether it must be given." }),
  default: anyJson.optional().meta({ description: "What it is when it is not given." }),
  description: z.string().optional().meta({ description: "What it is for." }),
});

/** Arguments by name, as the proposal declares them. */
export const typedArgs = z.record(z.string().regex(/\S/, { error: "must not be a blank name" }), typedArg);

/** The JSON Schema of arguments that are declared by name. Others than those are refused. */
export function typedArgsSchema(args: z.output<typeof typedArgs>): OperationSchema {
  const wrong = Object.entries(args).find(([, { type, default: value }]) => !fits(value, type));
  if (wrong !== undefined) {
    const [name, { type }] = wrong;
    return {
      ok: false,
      message: `gives ${JSON.stringify(name)} a default that is not of type ${String(type)}`,
    };
  }
  const properties = Object.entries(args).map(([name, arg]): [string, JsonObject] => [
    name,
    withoutUndefined({
      type: arg.type === undefined ? undefined : types[arg.type],
      pattern: arg.type === "duration" ? goDurationPattern : undefined,
      description: arg.description,
      default: arg.default,
    }),
  ]);
  const required = Object.entries(args).flatMap(([name, { required: isRequired, default: value }]) =>
    isRequired === true && value === undefined ? [name] : [],
  );
  return {
    ok: true,
    schema: {
      type: "object",
      properties: Object.fromEntries(properties),
      ...(required.length === 0 ? {} : { required }),
      additionalProperties: false,
    },
  };
}

function fits(value: Json | undefined, type: keyof typeof types | undefined): boolean {
  const name = type === undefined ? undefined : types[type];
  if (value === undefined || name === undefined) return true;
  if (type === "duration") return typeof value === "string" && parseGoDuration(value) !== undefined;
  switch (name) {
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === name;
  }
}

/** What a validator says of an argument, with what is meant in the place of the pattern of durations. */
export function durationInWords(problem: string): string {
  return problem.replace(
    `must match pattern "${goDurationPattern}"`,
    "must be a duration, such as 90s or 1m30s",
  );
}
