import type { ValidateSchema } from "../expect/tool-result.ts";
import { asText, isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import type { PlannedCall } from "../model/check.ts";
import { maxParametersTried } from "./calls.ts";
import { describedValues } from "./described-values.ts";
import { compilePattern } from "../templates/pattern.ts";
import { atReference, objectIn, typesOf } from "./schema-walk.ts";

/** Most calls of each sort, such as a missing argument or an alternative, so that a tool with many parameters is not called a hundred times. */
const maxOfSort = 3;

/**
 * Calls of a tool with arguments made from its input schema: from its examples, defaults, enums, formats and bounds. The same schema
 * gives the same calls. Arguments are kept only if the schema says of them what the call expects. The first call has valid ones; there is
 * none where no valid ones could be made.
 */
export async function generateCalls(
  tool: string,
  inputSchema: Json,
  validateSchema: ValidateSchema,
): Promise<readonly PlannedCall[]> {
  const calls: PlannedCall[] = [];
  const seen = new Set<string>();
  const add = async (
    args: Json | undefined,
    expects: PlannedCall["expects"],
    why: string,
  ): Promise<boolean> => {
    if (!isJsonObject(args) || seen.has(JSON.stringify(args))) return false;
    const { status } = await validateSchema(inputSchema, args);
    if (status !== (expects === "result" ? "valid" : "invalid")) return false;
    seen.add(JSON.stringify(args));
    calls.push({ tool, args, expects, why });
    return true;
  };
  const sampler = new Sampler(inputSchema);
  for (const schema of [inputSchema, ...alternativesOf(inputSchema).slice(0, maxOfSort)])
    await add(sampler.object(schema, { optional: false }), "result", "the required arguments");
  await add(sampler.object(inputSchema, { optional: true }), "result", "all arguments");
  await add(
    new Sampler(inputSchema, "least").object(inputSchema, { optional: true }),
    "result",
    "the least values",
  );
  await add(
    new Sampler(inputSchema, "most").object(inputSchema, { optional: true }),
    "result",
    "the greatest values",
  );
  const base = calls[0]?.args;
  if (base === undefined) return [];
  for (const sort of invalidArguments(
    inputSchema,
    calls.find(({ why }) => why === "all arguments")?.args ?? base,
  )) {
    let added = 0;
    for (const { args, why } of sort) {
      if (added === maxOfSort) break;
      if (await add(args, "refusal", why)) added += 1;
    }
  }
  return calls;
}

/** An input schema with each of the alternatives of which its arguments have to fit one. */
export function alternativesOf(schema: Json): readonly JsonObject[] {
  if (!isJsonObject(schema)) return [];
  return [...listIn(schema, "oneOf"), ...listIn(schema, "anyOf")].filter(isJsonObject).map((alternative) => ({
    ...schema,
    properties: { ...objectIn(schema, "properties"), ...objectIn(alternative, "properties") },
    required: [...listIn(schema, "required"), ...listIn(alternative, "required")],
  }));
}

interface InvalidArguments {
  readonly args: JsonObject;
  readonly why: string;
}

/**
 * Arguments that a schema is likely to refuse, by sort: missing, of another type, not in the enum, unknown. Each has nearly all
 * parameters, so that those for all parameters would be as many values as their square.
 */
function invalidArguments(schema: Json, base: JsonObject): readonly (readonly InvalidArguments[])[] {
  const required = new Set(isJsonObject(schema) ? listIn(schema, "required") : []);
  const given = Object.entries(objectIn(schema, "properties"))
    .filter(([name]) => Object.hasOwn(base, name))
    .toSorted(([a], [b]) => Number(required.has(b)) - Number(required.has(a)))
    .slice(0, maxParametersTried);
  const withEnum = given.filter(([, property]) => isJsonObject(property) && Array.isArray(property["enum"]));
  const without = (name: string): JsonObject =>
    Object.fromEntries(Object.entries(base).filter(([key]) => key !== name));
  return [
    given.map(([name]) => ({ args: without(name), why: `${name} is missing` })),
    given.map(([name, property]) => ({
      args: { ...base, [name]: otherType(typesOf(property)) },
      why: `${name} is of another type`,
    })),
    withEnum.map(([name]) => ({
      args: { ...base, [name]: "mcpvals-unknown" },
      why: `${name} is not in the enum`,
    })),
    [{ args: { ...base, mcpvals_unknown: "x" }, why: "an unknown argument" }],
  ];
}

/** A value of none of the types. */
function otherType(types: readonly string[]): Json {
  if (!types.includes("object")) return { mcpvals: true };
  return types.includes("string") ? 42 : "text";
}

/** Which value is taken where a schema allows a range. */
type Bias = "usual" | "least" | "most";

/** Levels that arguments are nested at most, which recursive schemas would exceed. */
const deepest = 8;
/** Longest text or list that is made for an upper bound. */
const longest = 200;

/** Makes values that fit a schema as far as its keywords are known; undefined where that fails. */
class Sampler {
  readonly #root: Json;
  readonly #bias: Bias;

  constructor(root: Json, bias: Bias = "usual") {
    this.#root = root;
    this.#bias = bias;
  }

  /** An object with the required members, and with the others if `optional`. */
  object(
    schema: Json,
    { optional, depth = 0 }: { readonly optional: boolean; readonly depth?: number },
  ): Json | undefined {
    if (!isJsonObject(schema)) return {};
    const required = Array.isArray(schema["required"]) ? (schema["required"] as readonly Json[]) : [];
    const members: [string, Json][] = [];
    for (const [name, property] of Object.entries(objectIn(schema, "properties"))) {
      const isRequired = required.includes(name);
      if (!isRequired && !optional) continue;
      const value = this.#value(property, depth + 1);
      if (value !== undefined) members.push([name, value]);
      else if (isRequired) return undefined;
    }
    for (const name of required)
      if (typeof name === "string" && !members.some(([key]) => key === name)) members.push([name, "text"]);
    return Object.fromEntries(members);
  }

  #value(schema: Json, depth: number): Json | undefined {
    if (schema === true) return "text";
    if (!isJsonObject(schema) || depth > deepest) return undefined;
    const { $ref: ref, const: fixed, allOf } = schema;
    if (typeof ref === "string") {
      const target = atReference(this.#root, ref);
      return target === undefined ? undefined : this.#value(target, depth + 1);
    }
    if (fixed !== undefined) return fixed;
    if (this.#bias === "usual") {
      const [given] = [schema["default"], ...listIn(schema, "examples"), ...listIn(schema, "enum")].filter(
        (value) => value !== undefined,
      );
      if (given !== undefined) return given;
    }
    const values = listIn(schema, "enum");
    if (values.length > 0) return this.#bias === "most" ? values.at(-1) : values[0];
    if (Array.isArray(allOf)) {
      const parts = (allOf as readonly Json[]).filter(isJsonObject);
      const { allOf: _, ...own } = schema;
      return this.#value(Object.assign({}, own, ...parts) as JsonObject, depth + 1);
    }
    for (const alternative of [...listIn(schema, "anyOf"), ...listIn(schema, "oneOf")]) {
      const value = this.#value(alternative, depth + 1);
      if (value !== undefined && value !== null) return value;
    }
    return this.#ofType(schema, depth);
  }

  #ofType(schema: JsonObject, depth: number): Json | undefined {
    const type = typesOf(schema).find((each) => each !== "null") ?? typesOf(schema)[0];
    switch (type) {
      case "string":
        return this.#text(schema);
      case "integer":
      case "number":
        return this.#number(schema, type === "integer");
      case "boolean":
        return this.#bias !== "least";
      case "null":
        return null;
      case "array":
        return this.#list(schema, depth);
      case "object":
        return this.object(schema, { optional: this.#bias !== "usual", depth });
      default:
        return "properties" in schema ? this.object(schema, { optional: false, depth }) : "text";
    }
  }

  #text(schema: JsonObject): Json | undefined {
    const { format, pattern } = schema;
    const known = typeof format === "string" ? formats[format] : undefined;
    const least = numberIn(schema, "minLength") ?? 0;
    const most = numberIn(schema, "maxLength") ?? Infinity;
    if (known !== undefined) return known.length < least || known.length > most ? undefined : known;
    // The validator decides whether one of these fits.
    if (typeof pattern === "string")
      return [...describedValues("", asText(schema["description"]) ?? ""), ...likely].find(
        (text) => fits(text, pattern) && text.length >= least && text.length <= most,
      );
    const length = {
      usual: Math.max(least, Math.min(4, most)),
      least,
      most: Math.min(most, Math.max(longest, least)),
    }[this.#bias];
    return "text".repeat(Math.ceil(length / 4)).slice(0, length);
  }

  #number(schema: JsonObject, isWhole: boolean): Json {
    const step = numberIn(schema, "multipleOf") ?? (isWhole ? 1 : undefined);
    const margin = step ?? 0.5;
    const above = numberIn(schema, "exclusiveMinimum");
    const below = numberIn(schema, "exclusiveMaximum");
    const low = numberIn(schema, "minimum") ?? (above === undefined ? undefined : above + margin);
    const high = numberIn(schema, "maximum") ?? (below === undefined ? undefined : below - margin);
    const wanted = {
      usual: Math.min(Math.max(1, low ?? 1), high ?? Infinity),
      least: low ?? Math.min(0, high ?? 0),
      most: high ?? Math.max(1000, low ?? 1000),
    }[this.#bias];
    if (step === undefined) return wanted;
    const round = this.#bias === "most" || wanted === high ? Math.floor : Math.ceil;
    return round(wanted / step) * step;
  }

  #list(schema: JsonObject, depth: number): Json | undefined {
    const least = numberIn(schema, "minItems") ?? 0;
    const most = Math.min(numberIn(schema, "maxItems") ?? 3, longest);
    const length = { usual: Math.max(least, Math.min(1, most)), least, most: Math.max(least, most) }[
      this.#bias
    ];
    const prefix = listIn(schema, "prefixItems");
    const items: Json[] = [];
    for (let index = 0; index < length; index += 1) {
      const of = prefix[index] ?? schema["items"] ?? true;
      const item = this.#value(of, depth + 1);
      if (item === undefined) return undefined;
      items.push(schema["uniqueItems"] === true ? another(item, of, index) : item);
    }
    return items;
  }
}

/** The value for a place in a list whose items have to differ: the same at the first place, another at each other one. */
function another(item: Json, schema: Json, index: number): Json {
  const { enum: values, multipleOf = 1 } = isJsonObject(schema) ? schema : {};
  if (Array.isArray(values)) return (values as readonly Json[])[index] ?? item;
  if (index === 0) return item;
  if (typeof item === "number") return item + index * Number(multipleOf);
  return typeof item === "string" ? `${item}${index}` : item;
}

/** Values of the formats of JSON Schema 2020-12, validation 7.3. */
const formats: Readonly<Record<string, string>> = {
  "date-time": "2026-01-15T10:30:00Z",
  date: "2026-01-15",
  time: "10:30:00Z",
  duration: "PT1H",
  email: "user@example.com",
  "idn-email": "user@example.com",
  hostname: "example.com",
  "idn-hostname": "example.com",
  ipv4: "192.0.2.1",
  ipv6: "2001:db8::1",
  uri: "https://example.com/",
  iri: "https://example.com/",
  "uri-reference": "/path",
  "iri-reference": "/path",
  "uri-template": "/items/{id}",
  uuid: "123e4567-e89b-42d3-a456-426614174000",
  "json-pointer": "/a",
  "relative-json-pointer": "0",
  regex: "a+",
};

/** Texts that usual patterns allow. */
const likely: readonly string[] = [
  "text",
  "TEXT",
  "Text",
  "a",
  "A",
  "abc123",
  "1",
  "12",
  "123",
  "1234",
  "12345",
  "123456",
  "1.0.0",
  "v1.0.0",
  "a-b",
  "a_b",
  "a.b",
  "a/b",
  "/",
  "/tmp",
  "#ffffff",
  "en",
  "en-US",
  "EUR",
  "+4915112345678",
  "0x1",
  "deadbeef",
  "0123456789abcdef0123456789abcdef01234567",
  ...Object.values(formats),
];

/** Whether a pattern fits, as far as it can be matched in linear time. */
function fits(text: string, pattern: string): boolean {
  try {
    return compilePattern(pattern).test(text);
  } catch {
    return false;
  }
}

function listIn(schema: JsonObject, key: string): readonly Json[] {
  const value = schema[key];
  return Array.isArray(value) ? (value as readonly Json[]) : [];
}

function numberIn(schema: JsonObject, key: string): number | undefined {
  const value = schema[key];
  return typeof value === "number" ? value : undefined;
}
