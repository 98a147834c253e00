import * as z from "zod";
import { formatSchemaError, resultText, structuredContent } from "../expect/tool-result.ts";
import { McpvalsError } from "../base/error.ts";
import { anyObject, closedObject, filledText, optional } from "../model/fields.ts";
import { formatKeyPath, isJsonObject, type Json } from "../base/json.ts";
import { readJsonText } from "../base/read-json.ts";
import { schemaProblems } from "../expect/weak-expectations.ts";
import { shortened } from "../base/visible-text.ts";
import { finalMessage, repeatedTurn, type Trajectory } from "../trace/trajectory.ts";
import { agentGrade, type GraderCheck, declaredKind, type KindContext, misspelling } from "./grader.ts";
import { toolUses } from "./tool-uses.ts";

const expectedSchema = anyObject.superRefine((schema, context) => {
  for (const { message, path } of schemaProblems(schema, []))
    context.addIssue({ code: "custom", path: [...path], message: problemText(message, path.length > 0) });
});

const config = z.lazy(() =>
  closedObject({
    schema: optional(expectedSchema, "The JSON Schema (2020-12 unless it names another dialect)."),
    schema_file: optional(
      filledText,
      "Instead of `schema`: a JSON file with it, relative to the file that declares the grader.",
    ),
    of: optional(
      z.enum(["answer", "arguments", "result"]),
      "What must be valid: the agent's last message, or the arguments or the result of every call of `tool`.",
      "`answer`",
    ),
    tool: optional(filledText, "Name of the tool, also as SERVER.NAME, for `arguments` and `result`."),
  })
    .refine(({ schema, schema_file }) => (schema === undefined) !== (schema_file === undefined), {
      error: "must have either schema or schema_file",
    })
    .refine(({ of = "answer", tool }) => (of === "answer") === (tool === undefined), {
      error: "must have tool if of is arguments or result, and only then",
    }),
);

type JsonSchema = z.output<typeof config>;

/** Is the agent's answer, or are the arguments or results of a tool, valid JSON? Score = valid values / all values. */
export const jsonSchema = declaredKind({
  type: "json_schema",
  description:
    "JSON that must be valid against a schema: the agent's last message, or the arguments or results of a tool. A code fence around the whole message is left out; a message with other text besides is not JSON. All values must be valid. A call that failed has no valid result.",
  config,
  example: {
    schema: { type: "object", required: ["total"], properties: { total: { type: "integer" } } },
  },
  files: ({ schema_file: file }) =>
    file === undefined ? [] : [{ path: ["schema_file"], file, problemIn: problemInFile }],
  prepare: (wanted, context) => ({
    [wanted.schema === undefined ? "schema_file" : "schema"]: schemaOf(wanted, context).then((schema) =>
      requireUsable(schema, "the schema", context),
    ),
  }),
  async grade(wanted, trajectory, context) {
    const schema = await schemaOf(wanted, context);
    const ofAnswer = wanted.of === undefined || wanted.of === "answer";
    const values = ofAnswer ? answer(trajectory) : ofCalls(wanted, trajectory);
    const repeated = ofAnswer ? repeatedTurn(trajectory, Infinity, () => false) : undefined;
    const checks = await Promise.all(
      values.map(async ({ what, seq, ...found }): Promise<GraderCheck> => {
        const why = "why" in found ? found.why : await violation(schema, found.value, context);
        const reason = `${what}: ${why ?? "valid"}`;
        return { passed: why === undefined, reason, evidence: seq === undefined ? [] : [seq] };
      }),
    );
    if (repeated !== undefined)
      checks.push({
        passed: false,
        reason: "the answer only repeats the simulated user",
        evidence: [repeated.seq],
      });
    return agentGrade(checks, trajectory);
  },
});

function problemText(message: string, isInside: boolean): string {
  return isInside ? `is wrong: ${message.replace(/,? in the schema $/, "")}` : message.trim();
}

function problemInFile(text: string): string | undefined {
  // The message has no part of the text: the file may have secrets.
  const found = readJsonText(text);
  if (found.reason !== undefined) return `is not JSON: ${found.reason}`;
  const issue = expectedSchema.safeParse(found.value).error?.issues[0];
  return issue && `is not a schema: ${formatKeyPath(issue.path.map(String)) || "it"} ${issue.message}`;
}

/** Throws `grader/broken` for a schema that no value can be validated against. */
export async function requireUsable(
  schema: Json,
  what: string,
  { validateSchema }: Pick<KindContext, "validateSchema">,
): Promise<void> {
  const check = await validateSchema(schema, null);
  if (check.status === "unusable") throw unusableSchema(what, check.reason);
}

/** The error of a schema that no value can be validated against; `what` names it. */
export function unusableSchema(what: string, reason: string): McpvalsError {
  const hint = "Correct the JSON Schema.";
  return new McpvalsError("grader/broken", `${what} cannot be used: ${reason}`, { hint });
}

async function schemaOf(
  { schema, schema_file }: JsonSchema,
  { dir, readFile }: Pick<KindContext, "dir" | "readFile">,
): Promise<Json> {
  if (schema !== undefined || schema_file === undefined) return schema ?? true;
  const { text } = await readFile(dir, schema_file);
  if (text === undefined) throw new Error(`${schema_file} is too large, or not UTF-8 text`);
  return JSON.parse(text) as Json;
}

/** A value, or why it is missing, with its name and the number of its event. */
type Judged = { readonly what: string; readonly seq?: number } & (
  | { readonly value: Json }
  | { readonly why: string }
);

function answer(trajectory: Trajectory): readonly Judged[] {
  const message = finalMessage(trajectory);
  const what = "the answer";
  if (message === undefined || message.text.trim() === "") return [{ what, why: "missing" }];
  return [{ what, seq: message.seq, ...parsed(withoutFence(message.text)) }];
}

/** A text without the Markdown fence around all of it. */
function withoutFence(text: string): string {
  return /^(`{3,}|~{3,})[^\n`]*\n(.*)\n\s*\1$/s.exec(text.trim())?.[2] ?? text;
}

function parsed(text: string): { readonly value: Json } | { readonly why: string } {
  const { value, reason } = readJsonText(text);
  return value === undefined ? { why: `not JSON: ${reason}` } : { value };
}

function ofCalls({ of, tool = "" }: JsonSchema, trajectory: Trajectory): readonly Judged[] {
  const uses = toolUses(trajectory).filter((use) => use.tool === tool || use.name === tool);
  if (uses.length === 0) {
    const misspelt = misspelling(tool, trajectory);
    return [{ what: tool, why: misspelt === undefined ? "not called" : `not called; ${misspelt}` }];
  }
  if (of === "arguments")
    return uses.map(({ args, seq }) => ({ what: `the arguments of ${tool}`, seq, value: args }));
  return uses
    .filter(({ faulted }) => faulted !== true)
    .map(({ seq, failure, result }): Judged => {
      const what = `the result of ${tool}`;
      if (failure !== undefined)
        return { what, seq, why: `missing, since the call failed: ${shortened(failure, 200)}` };
      if (result === undefined || !isJsonObject(result)) return { what, seq, why: "not on record" };
      const structured = structuredContent(result);
      return {
        what,
        seq,
        ...(structured === undefined ? parsed(resultText(result)) : { value: structured }),
      };
    });
}

/** How a value violates the schema; undefined: it is valid. Throws for a schema that cannot be used. */
async function violation(
  schema: Json,
  value: Json,
  { validateSchema }: KindContext,
): Promise<string | undefined> {
  const check = await validateSchema(schema, value);
  if (check.status === "unusable") throw unusableSchema("the schema", check.reason);
  if (check.status === "valid") return undefined;
  return `not valid: ${check.errors.map((error) => formatSchemaError(error, "it")).join(", ")}`;
}
