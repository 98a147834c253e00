import * as z from "zod";
import type { Json, JsonObject } from "../model.ts";

export const json: z.ZodType<Json> = z
  .lazy(() =>
    z.union([z.null(), z.boolean(), z.number(), z.string(), z.array(json), z.record(z.string(), json)]),
  )
  .meta({ id: "Json", description: "Any JSON value." });

export const object: z.ZodType<JsonObject> = z.record(z.string(), json);
export const texts = z.record(z.string(), z.string());
export const milliseconds = z.number().min(0);
const text = z.string();

const jsonExpectation = z
  .strictObject({
    path: text.describe("RFC 9535; a leading `.` or none is taken as `$.`."),
    exists: z.boolean().describe("Whether the path leads anywhere.").exactOptional(),
    equals: json.describe("Compared as JSON.").exactOptional(),
    contains: json.describe("A part of a text, members of a list or an object.").exactOptional(),
    matches: text.describe("A regular expression (RE2) found anywhere in a text.").exactOptional(),
    type: z.enum(["string", "number", "boolean", "array", "object", "null"]).exactOptional(),
    count: z.int().min(0).describe("How many places the path leads to.").exactOptional(),
    ignorePaths: z.array(text).describe("What `equals` and `contains` leave out.").exactOptional(),
    loose: z
      .literal(true)
      .describe('Values that are printed alike are equal, such as 5 and "5".')
      .exactOptional(),
  })
  .meta({ id: "JsonExpectation", description: "What a place in a JSON document must be." });

const textExpectation = z
  .strictObject({
    equals: text.describe("The whole text, but for line ends after the last line.").exactOptional(),
    contains: z.array(text).exactOptional(),
    matches: z.array(text).describe("Regular expressions (RE2), found anywhere.").exactOptional(),
    json: z
      .array(jsonExpectation)
      .describe("The text must be JSON, and these must hold of it.")
      .exactOptional(),
  })
  .meta({ id: "TextExpectation", description: "What a text must be; every part that is given must hold." });

const base = {
  id: text.describe("Unique in the task; templates call it `{steps.ID.outputs.NAME}`."),
  name: text.describe("What the author calls it.").exactOptional(),
  timeoutMs: milliseconds.describe("Longest that one attempt may take."),
  continueOnError: z.boolean().describe("Its failure is recorded and changes nothing.").exactOptional(),
  outputs: texts.describe("Templates by output name.").exactOptional(),
  retry: z
    .strictObject({ forMs: milliseconds, everyMs: milliseconds })
    .describe("Try again until it passes or the time is up.")
    .exactOptional(),
  retries: z.int().min(0).exactOptional(),
  stableForMs: milliseconds.describe("Once it passes it has to go on passing for so long.").exactOptional(),
  if: text.describe("The step is skipped unless this holds.").exactOptional(),
  failure: z
    .enum(["hard", "soft"])
    .describe("`hard`: a failure ends the phase. `soft`: a failure does not end setup.")
    .exactOptional(),
};

/** A step as it is exported: the model's, with everything explicit and templates as they were written. */
export const stepExportSchema: z.ZodType<JsonObject> = z
  .lazy(
    (): z.ZodType<JsonObject> =>
      z.discriminatedUnion("type", stepKinds()) as unknown as z.ZodType<JsonObject>,
  )
  .meta({ id: "Step", description: "One action, or one that has steps of its own." });

const steps = z.array(stepExportSchema);

function stepKinds() {
  return [command, http, file, llm, script, mcp, extension, foreach, anyOf, allOf, not, group] as const;
}

const command = z.strictObject({
  ...base,
  type: z.literal("command"),
  run: text.describe("The line for the shell."),
  shell: text.exactOptional(),
  workdir: text.describe("Relative to the task's folder.").exactOptional(),
  env: texts,
  stdin: text.exactOptional(),
  expect: z.strictObject({
    exitCode: z.int(),
    stdout: textExpectation.exactOptional(),
    stderr: textExpectation.exactOptional(),
  }),
});

const http = z.strictObject({
  ...base,
  type: z.literal("http"),
  url: text,
  method: text,
  headers: texts,
  body: z.union([z.strictObject({ text }), z.strictObject({ json })]).exactOptional(),
  expect: z.strictObject({
    status: z.array(z.union([z.int(), text])).describe("Of which one must fit; empty: any."),
    headers: z.record(text, textExpectation).exactOptional(),
    body: textExpectation.exactOptional(),
  }),
});

const file = z.strictObject({
  ...base,
  type: z.literal("file"),
  path: text.describe("Relative to the task's folder."),
  action: z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("create"), content: text, mode: z.int() }),
    z.strictObject({ kind: z.literal("remove") }),
    z.strictObject({
      kind: z.literal("check"),
      exists: z.boolean(),
      mode: z.int().exactOptional(),
      content: textExpectation.exactOptional(),
    }),
  ]),
});

const llm = z.strictObject({
  ...base,
  type: z.literal("llm"),
  contains: text.exactOptional(),
  exact: text.exactOptional(),
  rubric: text.exactOptional(),
  input: text.describe("What is judged; absent: the agent's output.").exactOptional(),
});

const script = z.strictObject({
  ...base,
  type: z.literal("script"),
  source: z.union([z.strictObject({ file: text }), z.strictObject({ inline: text })]),
  args: z.array(text),
  env: texts,
  protocol: z.enum(["exit-code", "json"]),
  workdir: z.enum(["task", "script"]).describe("Where it runs: the task's folder, or that of the script."),
});

const mcp = z.strictObject({
  ...base,
  type: z.literal("mcp"),
  server: text.exactOptional(),
  request: z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("tool"), tool: text, args: object }),
    z.strictObject({ kind: z.literal("resource"), uri: text }),
    z.strictObject({ kind: z.literal("prompt"), prompt: text, args: object }),
  ]),
  expect: z.strictObject({
    result: json.exactOptional(),
    error: text.exactOptional(),
    maxLatencyMs: milliseconds.exactOptional(),
    isError: z.boolean().exactOptional(),
    text: textExpectation.exactOptional(),
    json: z.array(jsonExpectation).exactOptional(),
    schema: object.exactOptional(),
    content: textExpectation.exactOptional(),
  }),
});

const extension = z.strictObject({
  ...base,
  type: z.literal("extension"),
  extension: text.describe(
    "What the task calls the extension: an alias, its name in an eval, or its package.",
  ),
  package: text
    .describe(
      "Where it comes from: `github.com/ORG/REPO@VERSION`, `npm:NAME@VERSION`, `mcpvals:NAME`, or a path relative to the task's folder, whose files are among the artifacts. Absent: only an eval says.",
    )
    .exactOptional(),
  operation: text.describe("What it is asked to do, over its protocol."),
  args: object.describe("Arguments, as templates."),
});

const foreach = z.strictObject({
  ...base,
  type: z.literal("foreach"),
  variable: text,
  in: z.union([text, z.array(json)]).describe("The items, or a template that gives a JSON list."),
  steps,
});

const anyOf = z.strictObject({ ...base, type: z.literal("anyOf"), steps });
const allOf = z.strictObject({ ...base, type: z.literal("allOf"), steps });
const not = z.strictObject({ ...base, type: z.literal("not"), steps });
const group = z.strictObject({ ...base, type: z.literal("group"), setup: steps, steps, cleanup: steps });
