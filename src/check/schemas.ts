import type { SchemaCheck } from "../expect/tool-result.ts";
import { isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import { shortened } from "../base/visible-text.ts";
import { textsOf } from "./definitions.ts";
import type { ClientEffects } from "../model/finding.ts";
import {
  aboutSchema,
  objectIn,
  objectKeywords,
  parametersIn,
  problemsIn,
  referencesIn,
  type SchemaProblem,
  type ToolSchema,
  toolSchemas,
  typesOf,
} from "./schema-walk.ts";
import { aboutTool, type RuleTable } from "./check-view.ts";

/** Rules about input and output schemas. */
export const schemaRules = {
  "schema/missing": {
    severity: "error",
    title: "A tool has no input schema",
    why: "Clients refuse the whole list, since the member is required.",
    fix: `Give it one; for a tool without parameters { "type": "object", "additionalProperties": false }.`,
    bad: `{ name: "now" }`,
    good: `{ name: "now", inputSchema: { type: "object", additionalProperties: false } }`,
    source:
      "MCP 2025-11-25, tools: inputSchema must be a valid JSON Schema object, not null; zereight/gitlab-mcp#286, twentyhq/twenty#15348",
    *find({ surface }) {
      for (const tool of surface.tools) {
        const { inputSchema: given } = tool.definition;
        if (isJsonObject(given)) continue;
        const message = given === undefined ? "it is missing" : `it is ${preview(given)}`;
        const clients = { "Claude Desktop": "refused", Cursor: "refused" } as const;
        yield { ...aboutTool(tool, message, clients), place: { tool: tool.name, pointer: "/inputSchema" } };
      }
    },
  },
  "schema/not-object": {
    severity: "error",
    title: "A schema's type is not object",
    why: "Arguments are always an object. Claude Code and Cursor leave out all tools of the server, OpenAI refuses the request.",
    fix: `Write "type": "object" in the outermost schema.`,
    bad: `inputSchema: { type: "string" }`,
    good: `inputSchema: { type: "object", properties: { text: { type: "string" } } }`,
    source:
      'MCP 2025-11-25, schema: Tool.inputSchema.type is "object"; anthropics/claude-code#88049, zereight/gitlab-mcp#286, vercel/ai#7005',
    *find({ surface }) {
      for (const each of toolSchemas(surface)) {
        // Since 2026-07-28 an output may be of any type.
        if (each.key === "outputSchema" && surface.protocolVersion >= "2026") continue;
        if (!isJsonObject(each.schema) || each.schema["type"] === "object") continue;
        const { type } = each.schema;
        const message = type === undefined ? "it has no type" : `its type is ${preview(type)}`;
        const clients = forInput(each, {
          "Claude Code": "refused",
          Cursor: "refused",
          OpenAI: "refused",
          ...(objectKeywords(each.schema).length > 0 ? { Gemini: "refused" } : {}),
        });
        yield aboutSchema(each, "", message, clients);
      }
    },
  },
  "schema/invalid": {
    severity: "error",
    title: "A schema is not valid JSON Schema",
    why: "Providers refuse every request that carries the tool, so that no tool of the client works.",
    fix: "Write what JSON Schema 2020-12 allows there.",
    bad: `{ type: "object", properties: { when: { type: "date" } } }`,
    good: `{ type: "object", properties: { when: { type: "string", format: "date" } } }`,
    source: "anthropics/claude-code#586, smallmain/vscode-unify-chat-provider#162, afrise/MCPSharp#9",
    async *find({ surface }, { validateSchema }) {
      const checks = new Map<string, SchemaCheck>();
      for (const each of toolSchemas(surface)) {
        const { schema } = each;
        if (!isJsonObject(schema) || referencesIn(each).some(({ isDangling }) => isDangling)) continue;
        // Many tools can have the same schema.
        const key = JSON.stringify(schema);
        const check = checks.get(key) ?? (await validateSchema(schema, {}));
        checks.set(key, check);
        // A schema that was not validated is reported by schema/unchecked.
        if (check.status !== "unusable" || check.isLimit === true) continue;
        const inDialect = await validateSchema(dialectSchema(schema), schema);
        const problems =
          inDialect.status === "invalid" ? problemsIn(inDialect.errors) : [unusableIn(each, check.reason)];
        const clients = forInput(each, { "Claude Code": "refused", OpenAI: "refused" });
        // An empty enum is reported by schema/unsatisfiable.
        const empty = new Set(
          contradictionsIn(each).flatMap(({ pointer, problem }) =>
            problem === emptyEnum ? `${pointer}/enum` : [],
          ),
        );
        for (const { pointer, message } of problems.filter((problem) => !empty.has(problem.pointer)))
          yield aboutSchema(each, pointer, message, clients);
      }
    },
  },
  "schema/dangling-ref": {
    severity: "error",
    title: "A $ref points to nothing",
    why: "The schema cannot be used; clients drop the tool or the whole list.",
    fix: "Point it to a schema that the same document has, for example under $defs, or write the schema in its place.",
    bad: `properties: { user: { $ref: "#/$defs/User" } }`,
    good: `properties: { user: { $ref: "#/$defs/User" } }, $defs: { User: { type: "string" } }`,
    source: "JSON Schema 2020-12, core 8.2.3; google-gemini/gemini-cli#13326",
    *find({ surface }) {
      for (const each of toolSchemas(surface))
        for (const { ref, pointer, isDangling } of referencesIn(each)) {
          if (!isDangling) continue;
          const clients = forInput(each, { Gemini: "refused" });
          yield aboutSchema(each, `${pointer}/$ref`, `nothing is at ${preview(ref)}`, clients);
        }
    },
  },
  "schema/unsatisfiable": {
    severity: "error",
    title: "No value can satisfy a schema",
    why: "Every call is refused, whatever an agent sends.",
    fix: "Correct the bounds, so that some value fits.",
    bad: `{ type: "integer", minimum: 10, maximum: 1 }`,
    good: `{ type: "integer", minimum: 1, maximum: 10 }`,
    source: "JSON Schema 2020-12, validation 6",
    *find({ surface }) {
      for (const each of toolSchemas(surface))
        for (const { pointer, problem } of contradictionsIn(each)) yield aboutSchema(each, pointer, problem);
    },
  },
  "schema/undeclared-required": {
    severity: "warning",
    title: "A required parameter is not declared",
    why: "An agent must send it, and does not know what it is.",
    fix: "Declare it in properties, or take it out of required.",
    bad: `{ properties: { a: { … } }, required: ["a", "b"] }`,
    good: `{ properties: { a: { … }, b: { … } }, required: ["a", "b"] }`,
    source: "JSON Schema 2020-12, validation 6.5.3",
    *find({ surface }) {
      for (const each of toolSchemas(surface, "inputSchema")) {
        const properties = objectIn(each.schema, "properties");
        for (const name of requiredOf(each.schema)) {
          if (Object.hasOwn(properties, name)) continue;
          const found = aboutSchema(each, "/required", "required names it, and properties does not");
          yield { ...found, place: { ...found.place, parameter: name } };
        }
      }
    },
  },
  "schema/example-violates": {
    severity: "warning",
    title: "A default or example violates its own schema",
    why: "Agents copy defaults and examples, and the call is refused.",
    fix: "Correct the value or the schema.",
    bad: `{ type: "integer", default: "10" }`,
    good: `{ type: "integer", default: 10 }`,
    source: "JSON Schema 2020-12, validation 9.2: default should be valid against the schema",
    async *find({ surface }, { validateSchema }) {
      for (const each of toolSchemas(surface, "inputSchema"))
        for (const { schema, pointer } of each.parts) {
          if (!isJsonObject(schema) || "$ref" in schema) continue;
          const { default: preset, examples, ...rest } = schema;
          const values: [what: string, value: Json][] = preset === undefined ? [] : [["default", preset]];
          if (Array.isArray(examples))
            for (const example of examples as readonly Json[]) values.push(["example", example]);
          for (const [what, value] of values) {
            const check = await validateSchema(rest, value);
            if (check.status !== "invalid") continue;
            const why = check.errors[0]?.message ?? "be another one";
            const message = `the ${what} is ${preview(value)}, and ${why}`;
            yield aboutSchema(each, pointer, message);
            break;
          }
        }
    },
  },
  "schema/duplicate-enum": {
    severity: "warning",
    title: "An enum has a value twice",
    why: "One of the two is often meant to be another value, and validators may refuse the schema.",
    fix: "Leave the value out, or correct it.",
    bad: `{ type: "string", enum: ["day", "week", "day"] }`,
    good: `{ type: "string", enum: ["day", "week", "month"] }`,
    source: "JSON Schema 2020-12, validation 6.1.2: elements of enum should be unique",
    *find({ surface }) {
      for (const each of toolSchemas(surface))
        for (const { schema, pointer } of each.parts) {
          const values = isJsonObject(schema) ? schema["enum"] : undefined;
          if (!Array.isArray(values)) continue;
          const seen = new Set<string>();
          const texts = (values as readonly Json[]).map((value) => JSON.stringify(value));
          const twice = texts.find((text) => seen.size === seen.add(text).size);
          if (twice === undefined) continue;
          yield aboutSchema(each, pointer, `enum has ${shortened(twice, 80)} twice`);
        }
    },
  },
  "schema/untyped-parameter": {
    severity: "warning",
    title: "A parameter has no type",
    why: "A model guesses what to send; Claude Code sends numbers and objects as text.",
    fix: "Give it a type, an enum or a const.",
    bad: `properties: { limit: { description: "Most results" } }`,
    good: `properties: { limit: { type: "integer", description: "Most results" } }`,
    source: "anthropics/claude-code#82652, openai/codex#2204",
    *find({ surface }) {
      for (const each of toolSchemas(surface, "inputSchema"))
        for (const { schema, pointer } of parametersIn(each)) {
          if (!isJsonObject(schema) || typeKeywords.some((key) => key in schema)) continue;
          yield aboutSchema(each, pointer, "it has no type, enum or const", { "Claude Code": "changed" });
        }
    },
  },
} as const satisfies RuleTable;

/** The rule about what the other rules could not look at; it comes after them. */
export const uncheckedRules = {
  "schema/unchecked": {
    severity: "warning",
    title: "Not all definitions were checked",
    why: "Defects in the rest are not in this report. Clients that validate need as long, and models read it all.",
    fix: "Make the definitions smaller and fewer.",
    bad: `500 tools, each with a schema of 2,000 parts`,
    good: `50 tools, each with a schema of 20 parts`,
    source: "JSON Schema 2020-12, core 13: validating untrusted schemas must not take excessive resources",
    *find({ surface }, { outOfTime = [], notValidated = new Map() }) {
      const all = toolSchemas(surface);
      const reasonOf = ({ schema, hasAllParts }: ToolSchema): string | undefined =>
        hasAllParts ? notValidated.get(schema) : "it has more parts than are looked at";
      const [first, ...others] = all.filter((each) => reasonOf(each) !== undefined);
      if (first !== undefined) {
        const message = `${others.length + 1} of ${all.length} schemas were not checked as a whole; the first: ${reasonOf(first)}`;
        yield aboutSchema(first, "", message);
      }
      if (!textsOf(surface).hasAll)
        yield { message: "texts and keys after the first 200,000 were not looked at", evidence: [] };
      if (outOfTime.length > 0)
        yield { message: `${outOfTime.join(", ")} ended early: validating took too long`, evidence: [] };
    },
  },
} as const satisfies RuleTable;

/** What clients do with a defect of an input schema; they look at output schemas less. */
function forInput({ key }: ToolSchema, clients: ClientEffects): ClientEffects | undefined {
  return key === "inputSchema" ? clients : undefined;
}

/** A schema for schemas: that of the dialect that one names. */
function dialectSchema({ $schema }: JsonObject): JsonObject {
  const dialect = /2019-09|draft-0[4-7]/.exec(JSON.stringify($schema ?? null))?.[0] ?? "2020-12";
  const uri = dialect.startsWith("draft-0")
    ? // The validator takes the older drafts for this one.
      "http://json-schema.org/draft-07/schema#"
    : `https://json-schema.org/draft/${dialect}/schema`;
  return { $schema: uri, $ref: uri };
}

/** The parts of a schema that no value satisfies; not branches, in which that may be on purpose. */
function contradictionsIn({
  parts,
}: ToolSchema): readonly { readonly pointer: string; readonly problem: string }[] {
  return parts.flatMap(({ schema, pointer, keyword }) => {
    if (["anyOf", "oneOf", "not", "if", "then", "else"].includes(keyword)) return [];
    const problem = contradictionIn(schema);
    return problem === undefined ? [] : [{ pointer, problem }];
  });
}

const emptyEnum = "enum is empty";

/** Why a schema cannot be used although its dialect allows it, with the place where that can be told. */
function unusableIn({ parts }: ToolSchema, reason: string): SchemaProblem {
  const empty = parts.find(({ schema }) => contradictionIn(schema) === emptyEnum);
  if (/enum must have non-empty array/.test(reason) && empty !== undefined)
    return { pointer: `${empty.pointer}/enum`, message: "it is empty" };
  const [, pattern, why] = /^Invalid regular expression: \/(.*)\/u: (.*)$/s.exec(reason) ?? [];
  const at = parts.find(({ schema }) => isJsonObject(schema) && schema["pattern"] === pattern);
  if (pattern === undefined || at === undefined)
    return { pointer: "", message: `it cannot be used: ${reason}` };
  return {
    pointer: `${at.pointer}/pattern`,
    message: `${preview(pattern)} is not a regular expression: ${why}`,
  };
}

/** Keywords that say, or let a client guess, what type a value is of. */
const typeKeywords = [
  "type",
  "enum",
  "const",
  "$ref",
  "anyOf",
  "oneOf",
  "allOf",
  "not",
  "if",
  "properties",
  "items",
];

const bounds = [
  ["minimum", "maximum"],
  ["minLength", "maxLength"],
  ["minItems", "maxItems"],
  ["minProperties", "maxProperties"],
  ["minContains", "maxContains"],
] as const;

/** Why no value satisfies a schema by itself; undefined: one may. */
function contradictionIn(schema: Json): string | undefined {
  if (!isJsonObject(schema)) return undefined;
  for (const [low, high] of bounds) {
    const [least, most] = [schema[low], schema[high]];
    if (typeof least === "number" && typeof most === "number" && least > most)
      return `${low} ${least} is greater than ${high} ${most}`;
  }
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema;
  const above = typeof exclusiveMinimum === "number" ? exclusiveMinimum : undefined;
  const below = typeof exclusiveMaximum === "number" ? exclusiveMaximum : undefined;
  if (above !== undefined && (below ?? Infinity) <= above) return `nothing is between ${above} and ${below}`;
  if (above !== undefined && typeof maximum === "number" && maximum <= above)
    return `nothing is above ${above} and at most ${maximum}`;
  if (below !== undefined && typeof minimum === "number" && minimum >= below)
    return `nothing is at least ${minimum} and below ${below}`;
  if (Array.isArray(schema["enum"]) && schema["enum"].length === 0) return emptyEnum;
  if (schema["additionalProperties"] !== false || isJsonObject(schema["patternProperties"])) return undefined;
  const properties = objectIn(schema, "properties");
  const impossible = requiredOf(schema).find((name) => !Object.hasOwn(properties, name));
  return impossible === undefined || !typesOf(schema).includes("object")
    ? undefined
    : `required names ${preview(impossible)}, which additionalProperties: false forbids`;
}

function requiredOf(schema: Json): readonly string[] {
  const required = isJsonObject(schema) ? schema["required"] : undefined;
  return Array.isArray(required)
    ? (required as readonly Json[]).filter((name) => typeof name === "string")
    : [];
}

function preview(value: Json): string {
  return shortened(JSON.stringify(value), 80);
}
