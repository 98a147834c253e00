import { asObject, isJsonObject, type Json, type JsonObject } from "../core/formats/json.ts";
import type { PlannedCall } from "../core/formats/model.ts";

/** Calls of a tool with arguments made from its input schema: one that is valid, and one without each required argument. */
export function generateCalls(tool: string, inputSchema: Json): readonly PlannedCall[] {
  const { properties, required } = asObject(inputSchema);
  const known = asObject(properties) as JsonObject;
  const names = Array.isArray(required) ? required.filter((name) => typeof name === "string") : [];
  const args = Object.fromEntries(names.map((name) => [name, exampleOf(known[name] ?? true)]));
  const valid: PlannedCall = { tool, args, expects: "result", why: "the required arguments" };
  return [
    valid,
    ...names.map((name): PlannedCall => {
      const { [name]: _, ...rest } = args;
      return { tool, args: rest, expects: "refusal", why: `${name} is missing` };
    }),
  ];
}

function exampleOf(schema: Json): Json {
  if (!isJsonObject(schema)) return "text";
  const { default: preset, examples, enum: values, type } = schema;
  const [given] = [
    preset,
    ...(Array.isArray(examples) ? examples : []),
    ...(Array.isArray(values) ? values : []),
  ].filter((value) => value !== undefined);
  if (given !== undefined) return given;
  const byType: Readonly<Record<string, Json>> = {
    number: 1,
    integer: 1,
    boolean: true,
    array: [],
    object: {},
    null: null,
  };
  return byType[String(type)] ?? "text";
}
