import { isJsonObject, type Json } from "../base/json.ts";
import { shortened } from "../base/visible-text.ts";
import { aboutTool, type CheckView, type Found, type RuleTable } from "./check-view.ts";
import type { ClientEffects } from "../model/finding.ts";
import {
  aboutSchema,
  listText,
  objectIn,
  objectKeywords,
  placeIn,
  pointerKey,
  referencesIn,
  type Subschema,
  type ToolSchema,
  toolSchemas,
  typesOf,
} from "./schema-walk.ts";

/** Rules about names and schemas that are valid, and that known clients refuse or change all the same. */
export const clientRules = {
  "client/name-characters": {
    severity: "warning",
    title: "Clients refuse a tool's name for its characters",
    why: "The request that carries the tool is refused, or all tools of the server are left out.",
    fix: "Use letters, digits, underscores and hyphens only.",
    bad: `{ name: "files.read" }`,
    good: `{ name: "files_read" }`,
    source: "loomle/loomle#168, microsoft/wassette#56, webstudio-is/webstudio#5960, openai/codex#8174",
    *find({ surface }) {
      for (const tool of surface.tools)
        if (/^[\w.-]{1,128}$/.test(tool.name) && tool.name.includes("."))
          yield aboutTool(tool, "the name has a dot", {
            "Claude Code": "refused",
            "Claude Desktop": "refused",
            Cursor: "refused",
            OpenAI: "refused",
            Codex: "refused",
          });
    },
  },
  "client/long-name": {
    severity: "warning",
    title: "Clients refuse or shorten a tool's name for its length",
    why: "The request that carries the tool is refused, or the tool is left out or gets another name.",
    fix: "Shorten the name; clients put the server's name before it.",
    bad: `server "internal-documents", tool "search_all_documents_of_the_department_by_keyword"`,
    good: `server "documents", tool "search_department"`,
    source:
      "evoila/meho#2745, microsoft/vscode#243602, anomalyco/opencode#24871, google-gemini/gemini-cli#20987, ComposioHQ/composio#2788",
    *find({ surface, server }) {
      for (const tool of surface.tools) {
        const { length } = tool.name;
        if (length > 64)
          yield aboutTool(tool, `the name has ${length} characters; 64 are allowed`, {
            "Claude Desktop": "refused",
            "VS Code": "changed",
            Gemini: "changed",
            OpenAI: "refused",
          });
        const both = server.length + length;
        const message = `the server's name "${server}" and the tool's have ${both} characters together; 60 are allowed`;
        if (both > 60) yield aboutTool(tool, message, { Cursor: "refused" });
      }
    },
  },
  "client/parameter-name": {
    severity: "warning",
    title: "Claude models refuse a parameter's name",
    why: "Every request that carries the tool is refused with HTTP 400, or the tool is left out without a word.",
    fix: "Use 1 to 64 letters, digits, underscores, dots and hyphens.",
    bad: `properties: { "created[after]": { type: "string" } }`,
    good: `properties: { created_after: { type: "string" } }`,
    source: "anthropics/claude-code#92648, freee/freee-mcp#15, microsoft/azure-devops-mcp#332",
    *find({ surface }) {
      for (const each of toolSchemas(surface, "inputSchema"))
        for (const name of Object.keys(objectIn(each.schema, "properties"))) {
          if (/^[\w.-]{1,64}$/.test(name)) continue;
          const message =
            name.length > 64
              ? `the name has ${name.length} characters; 64 are allowed`
              : "the name has other characters than letters, digits, _, . and -";
          const clients = { "Claude Code": "refused", "VS Code": "refused" } as const;
          yield aboutSchema(each, `/properties/${pointerKey(name)}`, message, clients);
        }
    },
  },
  "client/boolean-subschema": {
    severity: "warning",
    title: "Clients refuse true or false as the schema of a property",
    why: "They read each property's schema as an object; Claude Code then leaves out all tools of the server.",
    fix: "Give the property a type.",
    bad: `properties: { value: true }`,
    good: `properties: { value: { type: "string" } }`,
    source:
      "anthropics/claude-code#82949, anthropics/claude-code#92900, github/copilot-cli#4623, anomalyco/opencode#49464",
    find: (view) =>
      inSchemas(
        view,
        { "Claude Code": "refused", "Claude Desktop": "refused", Gemini: "refused" },
        ({ schema, keyword }, { key }) =>
          key === "inputSchema" && keyword === "properties" && typeof schema === "boolean"
            ? `the schema is ${schema}`
            : undefined,
      ),
  },
  "client/root-combinator": {
    severity: "warning",
    title: "Clients refuse a combination at the root of an input schema",
    why: "Claude and OpenAI refuse the request that carries the tool, Claude Code leaves the tool out, and Codex drops the properties beside it.",
    fix: "Write one object with all properties, and say in descriptions which belong together.",
    bad: `inputSchema: { type: "object", oneOf: [{ required: ["id"] }, { required: ["name"] }] }`,
    good: `inputSchema: { type: "object", properties: { id: { … }, name: { … } } }`,
    source:
      "anthropics/claude-code#95504, makenotion/notion-mcp-server#341, langchain-ai/langchainjs#9804, openai/codex#42283",
    *find({ surface }) {
      for (const each of toolSchemas(surface, "inputSchema")) {
        const { schema } = each;
        const found = isJsonObject(schema) ? Object.keys(rootCombinators).filter((key) => key in schema) : [];
        if (found.length === 0) continue;
        const clients = Object.assign(
          each.parts.some(isGeminiBranch) ? { Gemini: "refused" } : {},
          ...found.map((key) => rootCombinators[key]),
        ) as ClientEffects;
        yield aboutSchema(each, "", `the root has ${found.join(", ")}`, clients);
      }
    },
  },
  "client/old-dialect": {
    severity: "info",
    title: "Some versions of Claude Desktop refuse an output schema of an older dialect",
    why: "Every call of the tool fails there with an unsupported dialect: reported for Claude Desktop 1.28929.0 and 2.2553.1 (August and September 2026). The command line of Claude Code takes draft-07 (2.1.233, 2.1.250). Version 1 of the official TypeScript SDK writes draft-07 into the schemas that it makes, and has no option for it.",
    fix: "With version 1 of the official TypeScript SDK there is nothing to correct in your tools: version 2 (@modelcontextprotocol/server) writes JSON Schema 2020-12. In a schema that you write yourself, leave out $schema or name 2020-12.",
    bad: `outputSchema: { $schema: "http://json-schema.org/draft-07/schema#", type: "object" }`,
    good: `outputSchema: { $schema: "https://json-schema.org/draft/2020-12/schema", type: "object" }`,
    source:
      "modelcontextprotocol/typescript-sdk#745, anthropics/claude-code#86142, anthropics/claude-code#88882, anthropics/claude-code#90245, shashankswe2020-ux/whoop-mcp#251, DavidFuchs/mcp-uptime-kuma#83",
    find: (view) =>
      inSchemas(view, { "Claude Desktop 1.28929.0, 2.2553.1": "refused" }, ({ schema, pointer }, { key }) => {
        const dialect = isJsonObject(schema) ? schema["$schema"] : undefined;
        if (pointer !== "" || key !== "outputSchema" || typeof dialect !== "string") return undefined;
        if (dialect.includes("2020-12")) return undefined;
        const writer = dialect.includes("draft-07")
          ? "; version 1 of the official TypeScript SDK writes it, version 2 writes 2020-12"
          : "";
        return `$schema is ${preview(dialect)}, which Claude Desktop 1.28929.0 and 2.2553.1 refuse${writer}`;
      }),
  },
  "client/array-without-items": {
    severity: "warning",
    title: "VS Code and Gemini refuse an array without items",
    why: "VS Code leaves the tool out, and Gemini refuses the request that carries it with HTTP 400.",
    fix: 'Say what the array holds: items: { type: "string" }.',
    bad: `tags: { type: "array" }`,
    good: `tags: { type: "array", items: { type: "string" } }`,
    source: "microsoft/vscode#246119, boshyxd/robloxstudio-mcp#72",
    find: (view) =>
      inSchemas(view, { "VS Code": "refused", Gemini: "refused" }, ({ schema }, { key }) => {
        if (key !== "inputSchema" || !isJsonObject(schema) || !typesOf(schema).includes("array"))
          return undefined;
        return "items" in schema || "prefixItems" in schema ? undefined : "it is an array without items";
      }),
  },
  "client/tuple": {
    severity: "warning",
    title: "Clients do not take an array with a schema for each place",
    why: "Providers that check against JSON Schema 2020-12 refuse items that is a list, and Cursor refuses every result with prefixItems and items: false.",
    fix: "Give all entries one schema, with minItems and maxItems, or make it an object.",
    bad: `range: { type: "array", prefixItems: [{ type: "number" }, { type: "number" }], items: false }`,
    good: `range: { type: "array", items: { type: "number" }, minItems: 2, maxItems: 2 }`,
    source: "hyperdxio/hyperdx#2925, ScriptedAlchemy/agent-bundle#580",
    *find({ surface }) {
      for (const each of toolSchemas(surface))
        for (const { schema, pointer } of each.parts) {
          if (!isJsonObject(schema)) continue;
          const { items, prefixItems } = schema;
          if (each.key === "inputSchema" && Array.isArray(items))
            yield aboutSchema(each, pointer, "items is a list");
          if (each.key === "outputSchema" && Array.isArray(prefixItems) && items === false)
            yield aboutSchema(each, pointer, "prefixItems with items: false", { Cursor: "refused" });
        }
    },
  },
  "client/object-without-properties": {
    severity: "warning",
    title: "OpenAI refuses an object schema without properties",
    why: "The request that carries the tool is refused.",
    fix: "Write properties: {} for a tool without parameters.",
    bad: `inputSchema: { type: "object" }`,
    good: `inputSchema: { type: "object", properties: {} }`,
    source: "openai/openai-agents-python#449, containers/kubernetes-mcp-server#717",
    find: (view) =>
      inSchemas(view, { OpenAI: "refused" }, ({ schema, pointer }, { key }) =>
        pointer === "" &&
        key === "inputSchema" &&
        isJsonObject(schema) &&
        schema["type"] === "object" &&
        !("properties" in schema)
          ? "the object has no properties"
          : undefined,
      ),
  },
  "client/openai-strict": {
    severity: "info",
    onRequest: true,
    title: "OpenAI's strict mode does not take the schema",
    why: "Agents that turn strict mode on get an error for the tool, or fall back to arguments that nothing checks.",
    fix: "Set additionalProperties: false in each object, and list all properties as required; optional ones take null.",
    bad: `{ type: "object", properties: { q: { type: "string" } } }`,
    good: `{ type: "object", properties: { q: { type: "string" } }, required: ["q"], additionalProperties: false }`,
    source: "posit-dev/chatlas#255, vercel/ai#6704, github/github-mcp-server#376",
    *find(view) {
      for (const each of toolSchemas(view.surface, "inputSchema")) {
        const message = each.parts
          .map(({ schema }) => strictProblem(schema))
          .find((problem) => problem !== undefined);
        if (message !== undefined) yield aboutTool(each.tool, message, { "OpenAI strict mode": "refused" });
      }
    },
  },
  "client/gemini-object-keywords": {
    severity: "warning",
    title: "Gemini refuses properties or required on what is not an object",
    why: "The request that carries the tool is refused with HTTP 400.",
    fix: 'Add type: "object" where properties or required stand, or take them away.',
    bad: `user: { properties: { id: { … } }, required: ["id"] }`,
    good: `user: { type: "object", properties: { id: { … } }, required: ["id"] }`,
    source: "anomalyco/opencode#11889",
    find: (view) =>
      inSchemas(view, { Gemini: "refused" }, (part, { key }) => {
        // At the root and directly below it, schema/not-object and client/root-combinator report it.
        if (key !== "inputSchema" || part.pointer === "" || isGeminiBranch(part)) return undefined;
        const found = objectKeywords(part.schema);
        return found.length === 0 ? undefined : `${found.join(" and ")} without type: "object"`;
      }),
  },
  "client/gemini-array-items": {
    severity: "warning",
    title: "Gemini refuses arrays whose items have several types",
    why: "The request that carries the tool is refused with HTTP 400.",
    fix: "Give items one type.",
    bad: `{ type: "array", items: { type: ["string", "number"] } }`,
    good: `{ type: "array", items: { type: "string" } }`,
    source: "github/copilot-cli#4623",
    find: (view) =>
      inSchemas(view, { Gemini: "refused" }, ({ schema, keyword }, { key }) =>
        key === "inputSchema" && keyword === "items" && typesOf(schema).length > 1
          ? `items have the types ${typesOf(schema).join(", ")}`
          : undefined,
      ),
  },
  "client/gemini-refs": {
    severity: "warning",
    title: "Gemini does not take $ref",
    why: "Gemini's API loses the parameters behind a reference, or refuses the request with HTTP 400; Gemini CLI 0.15 left the tools of the server out.",
    fix: "Write the schema where it is used.",
    bad: `properties: { user: { $ref: "#/$defs/User" } }`,
    good: `properties: { user: { type: "object", properties: { … } } }`,
    source:
      "anomalyco/opencode#12295, lobehub/lobehub#12602, NousResearch/hermes-agent#99438; Gemini CLI 0.15: google-gemini/gemini-cli#13142, google-gemini/gemini-cli#13326",
    *find({ surface }) {
      for (const each of toolSchemas(surface, "inputSchema")) {
        // What nothing refers to does not matter, and what something refers to is found there.
        const used = referencesIn(each).filter(
          ({ pointer, isDangling }) => !isDangling && !/^\/(?:\$defs|definitions)\//.test(pointer),
        );
        if (used.length === 0) continue;
        const places = new Map(
          used.map(({ pointer }) => {
            const place = placeIn(each, pointer);
            return [place.parameter ?? pointer, place] as const;
          }),
        );
        const [place = {}] = places.values();
        const names = [...places.keys()];
        yield {
          place: names.length === 1 ? place : { tool: each.tool.name },
          message: names.length === 1 ? "it has a $ref" : `a $ref in ${listText(names)}`,
          evidence: [each.tool.evidence],
          clients: { Gemini: "refused" },
        };
      }
    },
  },
  "client/gemini-enum": {
    severity: "warning",
    title: "Gemini refuses an enum that is not of texts",
    why: "The request that carries the tool is refused with HTTP 400.",
    fix: 'Write type: "string" and the values as texts, or give a number bounds: { "type": "integer", "minimum": 0, "maximum": 2 }.',
    bad: `level: { type: "integer", enum: [0, 1, 2] }`,
    good: `level: { type: "string", enum: ["low", "medium", "high"] }`,
    source: "google-gemini/gemini-cli#4400, chrisdoc/hevy-mcp#1161, microsoft/azure-devops-mcp#139",
    find: (view) =>
      inSchemas(view, { Gemini: "refused" }, ({ schema }, { key }) => {
        const values = key === "inputSchema" && isJsonObject(schema) ? schema["enum"] : undefined;
        if (!Array.isArray(values)) return undefined;
        // Null stands for a value that may be left out, which clients convert.
        const other = (values as readonly Json[]).find(
          (value) => typeof value !== "string" && value !== null,
        );
        if (other !== undefined) return `enum has ${preview(other)}`;
        return typesOf(schema).includes("string") ? undefined : 'enum without type: "string"';
      }),
  },
  "client/codex-any-of": {
    severity: "info",
    title: "Older versions of Codex turn a parameter with alternatives into a text",
    why: "The model sends a text, and the call is refused: reported for Codex 0.111.0 (March 2026). Its newer source keeps anyOf.",
    fix: "Give the parameter one type, or split it into two parameters.",
    bad: `value: { anyOf: [{ type: "number" }, { type: "array", items: { type: "number" } }] }`,
    good: `values: { type: "array", items: { type: "number" } }`,
    source: "openai/codex#13768",
    find: (view) =>
      inSchemas(view, { Codex: "changed" }, ({ schema, keyword }, { key }) => {
        if (key !== "inputSchema" || keyword !== "properties" || !isJsonObject(schema)) return undefined;
        const alternatives = schema["anyOf"];
        if ("type" in schema || !Array.isArray(alternatives)) return undefined;
        const types = new Set(
          (alternatives as readonly Json[]).flatMap(typesOf).filter((type) => type !== "null"),
        );
        return types.size > 1 ? `anyOf has the types ${[...types].join(", ")}` : undefined;
      }),
  },
} as const satisfies RuleTable;

/** What clients do with a keyword at the root of an input schema. */
const rootCombinators: Readonly<Record<string, ClientEffects>> = {
  allOf: { "Claude Code": "refused", OpenAI: "refused", Codex: "changed" },
  anyOf: { "Claude Code": "refused", OpenAI: "refused", Codex: "changed" },
  oneOf: { "Claude Code": "refused", OpenAI: "refused", Codex: "changed" },
  if: { "Claude Code": "refused" },
  not: { OpenAI: "refused" },
  enum: { OpenAI: "refused" },
};

/** Whether a part is one of a combination at the root that Gemini refuses, since it does not say that it is an object. */
function isGeminiBranch({ schema, pointer }: Subschema): boolean {
  return (
    /^\/(?:(?:allOf|anyOf|oneOf)\/\d+|if|then|else|not)$/.test(pointer) && objectKeywords(schema).length > 0
  );
}

/** What a rule says of each part of the schemas of all tools; once for each place. */
function* inSchemas(
  { surface }: CheckView,
  clients: ClientEffects,
  say: (part: Subschema, of: ToolSchema) => string | undefined,
): Iterable<Found> {
  for (const each of toolSchemas(surface))
    for (const part of each.parts) {
      const message = say(part, each);
      if (message !== undefined) yield aboutSchema(each, part.pointer, message, clients);
    }
}

function strictProblem(schema: Json): string | undefined {
  if (!isJsonObject(schema) || !typesOf(schema).includes("object")) return undefined;
  if (schema["additionalProperties"] !== false) return "additionalProperties is not false";
  const required = new Set(Array.isArray(schema["required"]) ? (schema["required"] as readonly Json[]) : []);
  const hasOptional = Object.keys(objectIn(schema, "properties")).some((name) => !required.has(name));
  return hasOptional ? "not all properties are required" : undefined;
}

function preview(value: Json): string {
  return shortened(JSON.stringify(value), 80);
}
