import * as z from "zod";
import { withServerOverlays } from "../config/server-overlay-json-schema.ts";
import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import {
  solutionCallSchema,
  solutionForeachSchema,
  solutionMcpSchema,
  solutionSaySchema,
} from "./solution-schemas.ts";
import { plainKinds, stepForms } from "./step-forms.ts";
import { taskSchema } from "./task-schema.ts";

export interface TaskJsonSchemaOptions {
  /** Keeps `defaultText`, the words for defaults that are no fixed value; only the reference page wants them. */
  readonly defaultTexts?: boolean;
}

/** Every schema of the format in one, so that parts that are used twice are written once. */
const everything = z.object({
  task: taskSchema,
  steps: z.object(
    Object.fromEntries(
      Object.entries(stepForms).map(([kind, { schema }]): [string, z.ZodType] => [kind, schema]),
    ),
  ),
  solution: z.object({
    mcp: solutionMcpSchema,
    call: solutionCallSchema,
    say: solutionSaySchema,
    foreach: solutionForeachSchema,
  }),
});

/** The JSON Schema of task files (draft 2020-12), made from the schemas that validate them. */
export function taskJsonSchema({ defaultTexts = false }: TaskJsonSchemaOptions = {}): JsonObject {
  const made = z.toJSONSchema(everything, {
    io: "input",
    target: "draft-2020-12",
    unrepresentable: "any",
    override: ({ jsonSchema }) => {
      // Any text may hold a template, so a format can only be checked after it was replaced.
      delete jsonSchema.format;
    },
  }) as JsonObject;
  const { task = {}, steps = {}, solution = {} } = objectAt(made, "properties");
  const parts = {
    Step: stepPart(objectAt(steps, "properties")),
    SolutionAction: solutionPart(objectAt(solution, "properties")),
  };
  const schema = {
    $schema: made["$schema"] ?? "",
    $id: "urn:mcpvals:task",
    ...(task as JsonObject),
    $defs: inOrder({ ...withTaskServers(objectAt(made, "$defs")), ...parts }),
  };
  return defaultTexts ? schema : withoutDefaultTexts(schema);
}

const dotted = String.raw`^[^.]+\..+$`;
const steps: JsonObject = { type: "array", minItems: 1, items: { $ref: "#/$defs/Step" } };

/** The steps whose body may also be a list of steps, or a single one. */
const shortForms: Readonly<Record<string, readonly Json[]>> = {
  anyOf: [steps],
  allOf: [steps],
  not: [steps, { $ref: "#/$defs/Step" }],
};

function stepPart(forms: JsonObject): JsonObject {
  const properties = plainKinds.map((kind): [string, JsonObject] => {
    const form = forms[kind] ?? {};
    const short = shortForms[kind];
    const type = short === undefined ? (form as JsonObject) : { anyOf: [...short, form] };
    return [kind, { ...type, description: descriptions[kind] ?? "" }];
  });
  return {
    title: "Step",
    description:
      "One action or check: a map with exactly one key, the type of the step. `SERVER.TOOL` calls a tool of a server, and `ALIAS.OPERATION` an operation of an import.",
    ...oneKey(Object.fromEntries(properties)),
    patternProperties: {
      [dotted]: {
        description: "`SERVER.TOOL` calls a tool; `ALIAS.OPERATION` is an operation of an import.",
        anyOf: [forms["call"] ?? {}, forms["operation"] ?? {}],
      },
    },
  };
}

const descriptions: Readonly<Record<string, string>> = {
  command: "Runs a line in the shell.",
  http: "Sends one HTTP request.",
  file: "Makes, removes or looks at a file.",
  llm: "Asks the judge about a text; only in verify.",
  script: "Runs a program of the task's own.",
  mcp: "Asks a server by itself.",
  extension: "An operation of an extension.",
  foreach: "Runs steps for every item of a list.",
  anyOf: "Passes with the first of its steps that passes.",
  allOf: "Passes when all of its steps pass.",
  not: "Passes when not all of its steps pass.",
  group: "Steps with their own setup and cleanup.",
};

function solutionPart(forms: JsonObject): JsonObject {
  const { mcp = {}, say = {}, foreach = {}, call = {} } = forms;
  return {
    title: "Solution action",
    description:
      "What the agent `oracle` does: a map with exactly one key. `SERVER.TOOL` calls a tool of a server.",
    ...oneKey({
      mcp: { ...(mcp as JsonObject), description: "Asks a server as if the agent had done it." },
      say,
      foreach: { ...(foreach as JsonObject), description: "Does its actions for every item of a list." },
    }),
    patternProperties: {
      [dotted]: { ...(call as JsonObject), description: "Calls a tool of a server." },
    },
  };
}

function oneKey(properties: JsonObject): JsonObject {
  return { type: "object", minProperties: 1, maxProperties: 1, properties, additionalProperties: false };
}

/** In a task `command` and `url` tell the transport, and paths start from the task's folder. */
function withTaskServers(definitions: JsonObject): JsonObject {
  const change = (id: string, told: string): JsonObject => {
    const definition = objectAt(definitions, id);
    const properties = objectAt(definition, "properties");
    const changed = {
      transport: { defaultText: `told by \`${told}\`` },
      startupTimeout: { default: "30s" },
      ...(id === "StdioServer" ? { cwd: taskFolder } : {}),
    };
    return { ...definition, required: [told], properties: merged(properties, changed) };
  };
  return withServerOverlays({
    ...definitions,
    Spec: withOverlays(objectAt(definitions, "Spec")),
    StdioServer: change("StdioServer", "command"),
    ShttpServer: change("ShttpServer", "url"),
    SseServer: {
      ...objectAt(definitions, "SseServer"),
      properties: merged(objectAt(objectAt(definitions, "SseServer"), "properties"), {
        startupTimeout: { default: "30s" },
      }),
    },
  });
}

/** The servers of a task may also be parts, laid over the eval's. */
function withOverlays(spec: JsonObject): JsonObject {
  const properties = objectAt(spec, "properties");
  const { description = "" } = objectAt(properties, "servers");
  const whole: Json = { $ref: "#/$defs/Server" };
  const part: Json = { $ref: "#/$defs/ServerOverlay" };
  const servers: JsonObject = {
    description,
    type: "object",
    properties: { inherit: { description: "`false` takes nothing from the eval.", type: "boolean" } },
    additionalProperties: { anyOf: [whole, part, { type: "null" }] },
    default: {},
  };
  return { ...spec, properties: { ...properties, servers } };
}

const taskFolder = {
  description: "Folder that the program starts in, relative to the task's folder.",
  defaultText: "the task's folder",
};

function merged(properties: JsonObject, changes: Readonly<Record<string, JsonObject>>): JsonObject {
  const members = Object.entries(properties).map(([key, property]): [string, Json] => [
    key,
    { ...(property as JsonObject), ...changes[key] },
  ]);
  return Object.fromEntries(members);
}

/** The parts in the order in which a reader meets them; those not named come last. */
const order = [
  "Metadata",
  "Spec",
  "PromptFile",
  "Requirement",
  "Import",
  "TaskLimits",
  "Step",
  "CommandStep",
  "CommandExpectation",
  "HttpStep",
  "HttpExpectation",
  "FileStep",
  "FileExpectation",
  "LlmStep",
  "ScriptStep",
  "McpStep",
  "ToolCallStep",
  "McpExpectation",
  "ExtensionStep",
  "OperationStep",
  "ForeachStep",
  "AnyOfStep",
  "AllOfStep",
  "NotStep",
  "GroupStep",
  "TextExpectation",
  "JsonExpectation",
  "Retry",
  "SolutionAction",
  "SolutionMcp",
  "SolutionCall",
  "SolutionForeach",
];

function inOrder(definitions: JsonObject): JsonObject {
  const rest = Object.keys(definitions).filter((id) => !order.includes(id));
  const ids = [...order.filter((id) => Object.hasOwn(definitions, id)), ...rest];
  return Object.fromEntries(ids.map((id): [string, Json] => [id, definitions[id] ?? {}]));
}

function withoutDefaultTexts(value: JsonObject): JsonObject {
  const members = Object.entries(value).filter(([key]) => key !== "defaultText");
  return Object.fromEntries(members.map(([key, member]): [string, Json] => [key, cleaned(member)]));
}

function cleaned(value: Json): Json {
  if (Array.isArray(value)) return value.map((each: Json) => cleaned(each));
  return isJsonObject(value) ? withoutDefaultTexts(value) : value;
}

function objectAt(parent: Json, key: string): JsonObject {
  const value = isJsonObject(parent) ? parent[key] : undefined;
  return isJsonObject(value) ? value : {};
}
