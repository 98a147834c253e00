import * as z from "zod";
import { equalJson } from "../expect/json-difference.ts";
import { anyJson, anyObject, closedObject, filledText, optional, patternText } from "../model/fields.ts";
import { isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import { compilePattern } from "../templates/pattern.ts";
import { shortened } from "../base/visible-text.ts";
import { serverIn } from "../trace/agent-acts.ts";
import { type GradeContext, patternIn } from "./grader.ts";
import { requireUsable, unusableSchema } from "./json-schema.ts";
import type { ToolUse } from "./tool-uses.ts";

const bound = z.number().optional();
type Range = { readonly [K in "gte" | "lte" | "gt" | "lt"]?: number | undefined };

const matchers = {
  equals: optional(anyJson, "The value equals this one, as JSON."),
  contains: optional(
    filledText,
    "The value contains this text, in the same case. Values other than texts are compared as compact JSON.",
  ),
  regex: optional(
    patternText,
    "This regular expression (RE2) is found anywhere in the value. Values other than texts are compared as compact JSON.",
  ),
  range: optional(
    closedObject({ gte: bound, lte: bound, gt: bound, lt: bound })
      .refine((range) => Object.values(range).some((value) => value !== undefined), {
        error: "must have gte, lte, gt or lt",
      })
      .refine(hasNumbers, { error: "has no number inside its bounds" }),
    "The value is a number inside these bounds.",
  ),
  json_schema: optional(anyObject, "The value is valid against this JSON Schema."),
};

function hasNumbers({ gte = -Infinity, lte = Infinity, gt = -Infinity, lt = Infinity }: Range): boolean {
  return gte <= lte && gte < lt && gt < lte && gt < lt;
}

const matcher = z.lazy(() =>
  closedObject(matchers).refine((each) => Object.keys(each).length === 1, {
    error: `must have exactly one of ${Object.keys(matchers).join(", ")}`,
  }),
);
type Matcher = z.output<typeof matcher>;

/** Matchers by argument; a value that is not a matcher stands for one that the argument must equal. */
const argsSchema = z.lazy(() =>
  z.record(filledText, anyJson).superRefine((args, context) => {
    for (const [key, value] of Object.entries(args))
      for (const { path, ...issue } of (isMatcher(value) ? matcher.safeParse(value).error?.issues : []) ?? [])
        context.addIssue({ ...issue, path: [key, ...path] });
  }),
);

function isMatcher(value: Json): value is JsonObject {
  return isJsonObject(value) && Object.keys(value).some((key) => Object.hasOwn(matchers, key));
}

function matcherOf(value: Json): Matcher {
  return isMatcher(value) ? value : { equals: value };
}

/** Name of a tool: exact, or a pattern for whole names between slashes. */
export const toolName = filledText.superRefine((name, context) => {
  const pattern = patternIn(name);
  const refused =
    pattern === undefined ? undefined : patternText.safeParse(pattern).error?.issues[0]?.message;
  if (refused !== undefined) context.addIssue(refused);
  else if (name === "//") context.addIssue("is an empty pattern");
  else if (pattern === undefined && /[*+?()[\]{}|^$\\]/.test(name))
    context.addIssue(`is not a name of a tool; write a pattern as "/${name}/"`);
});

const patternDescription = "a regular expression (RE2) that must match the whole name";

/** The fields of a description of calls, without the source of the tool. */
export const callFields = {
  tool: optional(
    toolName,
    `The tool, by its exact name, also as SERVER.NAME; or \`/PATTERN/\`: ${patternDescription}.`,
  ),
  args: optional(
    argsSchema,
    "What arguments must be: by name, or by path, such as `filter.state` or `items.0`. A value stands for an equal one; else exactly one of `equals`, `contains`, `regex`, `range`, `json_schema`.",
  ),
};

/** Where tools come from. */
export const sourceText = z
  .string()
  .regex(/^(?:mcp:.+|builtin|skill)$/s, { error: "must be mcp:SERVER, builtin or skill" });

/** A description of calls; all that is given must hold. */
export const callSchema = z.lazy(() =>
  closedObject({
    ...callFields,
    tool_pattern: optional(patternText, `Instead of \`tool\`: ${patternDescription}.`),
    source: optional(
      sourceText,
      "Where the tool comes from: `mcp:SERVER`, `builtin` (the agent's own) or `skill` (the load of a skill).",
      "any source",
    ),
    command_pattern: optional(
      patternText,
      "Regular expression (RE2) found in the argument `command`, ignoring case.",
    ),
    skill_pattern: optional(
      patternText,
      "Regular expression (RE2) found in the argument `skill`, ignoring case.",
    ),
    path_pattern: optional(
      patternText,
      "Regular expression (RE2) found in the argument `path`, ignoring case.",
    ),
    success: optional(z.boolean(), "Whether the call must have succeeded (`true`) or failed (`false`)."),
  }),
);

export type WantedCall = Partial<z.output<typeof callSchema>>;

/** The uses of tools that a description fits. */
export async function usesThatFit(
  wanted: WantedCall,
  uses: readonly ToolUse[],
  { validateSchema }: Pick<GradeContext, "validateSchema">,
): Promise<readonly ToolUse[]> {
  const found = uses.filter(callTest(wanted));
  const schemas = Object.entries(wanted.args ?? {}).flatMap(([path, value]) => {
    const { json_schema: schema } = matcherOf(value);
    return schema === undefined ? [] : [{ path, schema }];
  });
  if (schemas.length === 0) return found;
  const fits = await Promise.all(
    found.map(async ({ args }) => {
      for (const { path, schema } of schemas) {
        const check = await validateSchema(schema, valueAt(args, path) ?? null);
        if (check.status === "unusable") throw unusableSchema("the json_schema of a matcher", check.reason);
        if (check.status === "invalid") return false;
      }
      return true;
    }),
  );
  return found.filter((_, index) => fits[index]);
}

type UseTest = (use: ToolUse) => boolean;

/** Tests uses of tools by a description, except for its schemas, which need a validator. */
function callTest(wanted: WantedCall): UseTest {
  const { tool, tool_pattern, source, args = {}, success } = wanted;
  const patterns = {
    command: wanted.command_pattern,
    skill: wanted.skill_pattern,
    path: wanted.path_pattern,
  };
  const tests: UseTest[] = [];
  if (tool !== undefined) tests.push(nameTest(tool));
  if (tool_pattern !== undefined) tests.push(patternTest(tool_pattern));
  if (source !== undefined) tests.push((use) => use.source === source);
  if (success !== undefined) tests.push(({ failure }) => success === (failure === undefined));
  for (const [key, pattern] of Object.entries(patterns)) {
    if (pattern === undefined) continue;
    const compiled = compilePattern(`(?i)${pattern}`);
    tests.push((use) => {
      const value = valueAt(use.args, key);
      return value !== undefined && compiled.test(asSearchText(value));
    });
  }
  for (const [path, given] of Object.entries(args)) {
    const matcher = matcherOf(given);
    tests.push((use) => {
      const value = valueAt(use.args, path);
      return value !== undefined && fitsValue(matcher, value);
    });
  }
  return (use) => tests.every((fits) => fits(use));
}

/** Tests whether a used tool has a name: NAME, SERVER.NAME or `/PATTERN/`. */
export function nameTest(name: string): UseTest {
  const pattern = patternIn(name);
  if (pattern !== undefined) return patternTest(pattern);
  const plain = plainName(name);
  return (use) =>
    use.tool === name ||
    use.name === name ||
    (use.isRenamed && [use.tool, use.name].some((each) => plainName(each) === plain));
}

/** A name as a program may write it that allows few characters. */
function plainName(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9]/g, "_");
}

/** Tests whether a pattern matches the whole name of a used tool. */
function patternTest(pattern: string): UseTest {
  const compiled = compilePattern(`^(?:${pattern})$`);
  // Agents use the same few tools again and again.
  const known = new Map<string, boolean>();
  return ({ tool }) => {
    const fits = known.get(tool) ?? compiled.test(tool);
    known.set(tool, fits);
    return fits;
  };
}

/** The value of an argument by its name, or by a path of names and positions with dots between them. */
function valueAt(args: Json, path: string): Json | undefined {
  if (isJsonObject(args) && Object.hasOwn(args, path)) return args[path];
  return path
    .split(".")
    .reduce<Json | undefined>(
      (value, key) =>
        typeof value === "object" && value !== null && Object.hasOwn(value, key)
          ? (value as Readonly<Record<string, Json>>)[key]
          : undefined,
      args,
    );
}

/** True for a `json_schema`, which needs a validator. */
function fitsValue(wanted: Matcher, value: Json): boolean {
  const { equals, contains, regex, range, json_schema } = wanted;
  if (contains !== undefined) return asSearchText(value).includes(contains);
  if (regex !== undefined) return compilePattern(regex).test(asSearchText(value));
  if (range !== undefined) return typeof value === "number" && isInside(value, range);
  return json_schema !== undefined || (equals !== undefined && equalJson(value, equals));
}

/** Throws `grader/broken` for a schema in matchers of arguments that no value can be validated against. */
export async function requireUsableSchemas(
  calls: readonly WantedCall[],
  context: Pick<GradeContext, "validateSchema">,
): Promise<void> {
  for (const [name, value] of calls.flatMap(({ args = {} }) => Object.entries(args))) {
    const { json_schema: schema } = matcherOf(value);
    if (schema !== undefined) await requireUsable(schema, `the json_schema of the argument ${name}`, context);
  }
}

function isInside(
  value: number,
  { gte = -Infinity, lte = Infinity, gt = -Infinity, lt = Infinity }: Range,
): boolean {
  return value >= gte && value <= lte && value > gt && value < lt;
}

function asSearchText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A description of calls in words. */
export function describeCall(wanted: WantedCall): string {
  const { tool, tool_pattern, source, args = {}, success } = wanted;
  const patterns = {
    command: wanted.command_pattern,
    skill: wanted.skill_pattern,
    path: wanted.path_pattern,
  };
  const conditions = [
    ...Object.entries(args).map(([key, value]) => `${key} ${describeMatcher(matcherOf(value))}`),
    ...Object.entries(patterns).flatMap(([key, pattern]) =>
      pattern === undefined ? [] : `${key} /${pattern}/i`,
    ),
  ];
  const name = tool ?? (tool_pattern === undefined ? "any tool" : `/${tool_pattern}/`);
  const from = source === undefined ? "" : ` of ${serverIn({ source }) ?? source}`;
  let outcome = "";
  if (success !== undefined) outcome = success ? " that succeeds" : " that fails";
  return `${name}${from}${conditions.length === 0 ? "" : ` (${conditions.join(", ")})`}${outcome}`;
}

function describeMatcher({ equals, contains, regex, range, json_schema }: Matcher): string {
  if (contains !== undefined) return `contains ${JSON.stringify(shortened(contains, 80))}`;
  if (regex !== undefined) return `matches /${shortened(regex, 80)}/`;
  if (range !== undefined) return `in ${JSON.stringify(range)}`;
  if (json_schema !== undefined) return "fits its json_schema";
  return `= ${shortened(JSON.stringify(equals), 80)}`;
}
