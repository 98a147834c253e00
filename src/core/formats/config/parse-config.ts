import type * as z from "zod";
import type { Diagnostic } from "../../errors/error.ts";
import { type BuildOptions, buildEval } from "./build-eval.ts";
import { configNotes } from "./config-notes.ts";
import { checkRules } from "./config-rules.ts";
import { configSchema, type ParsedConfig } from "./config-schema.ts";
import { viewConfig } from "./config-view.ts";
import { formatKeyPath, type KeyPath } from "../key-path.ts";
import type { Eval } from "../model.ts";
import { type Locate, placeProblem, type Problem } from "../problem.ts";
import { problemsOfIssues } from "../zod-problems.ts";

export interface ParseConfigOptions extends BuildOptions {
  /** Texts as written, by formatted key path, of strings that variables went into; messages show these. */
  readonly templates?: ReadonlyMap<string, string>;
  /** Problems found before; what is wrong only because of them is not told again. */
  readonly earlier?: readonly Problem[];
}

export type ParsedEval =
  | { readonly ok: true; readonly eval: Eval; readonly notes: readonly string[] }
  | { readonly ok: false; readonly diagnostics: readonly Diagnostic[] };

/** Problems that are told at once; a file with more is wrong in one way many times. */
const mostProblems = 1000;

/**
 * Checks a config document, with variables already replaced, and turns it into an eval. Gives every problem at once,
 * in the order of the file when `locate` knows lines.
 */
export function parseConfig(document: unknown, options: ParseConfigOptions): ParsedEval {
  const { earlier = [], templates } = options;
  const unusable = earlier.filter((problem) => problem.path.length === 0);
  if (unusable.length > 0) return refusal(unusable, options.locate);
  const { data, issues } = validate(document);
  const view = viewConfig(document, options);
  const wrongValues = problemsOfIssues(issues.slice(0, mostProblems), document, templates);
  const found = notCausedBy(earlier, wrongValues);
  const broken = notCausedBy([...earlier, ...found], checkRules(view));
  const problems = [...earlier, ...found, ...broken].slice(0, mostProblems);
  if (problems.length > 0 || data === undefined) return refusal(problems, options.locate);
  return { ok: true, eval: buildEval(data, options), notes: configNotes(data, view.judged) };
}

interface Validated {
  /** Absent when there are issues. */
  readonly data?: ParsedConfig;
  readonly issues: readonly z.core.$ZodIssue[];
}

function validate(document: unknown): Validated {
  try {
    return safeParse(document);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // zod overflows the stack on some 100,000 issues; the first ones say as much.
    const { issues } = safeParse(beginningOf(document));
    return { issues: issues.length === 0 ? [tooMany] : issues };
  }
}

function safeParse(document: unknown): Validated {
  // A config is parsed once: compiling the schema first would cost more than it saves.
  const parsed = configSchema.safeParse(document, { jitless: true });
  return parsed.success ? { data: parsed.data, issues: [] } : { issues: parsed.error.issues };
}

const tooMany = {
  code: "custom",
  path: [],
  input: undefined,
  message: "has more mistakes than can be listed",
} satisfies z.core.$ZodIssue;

/** A copy of a document with only the first items of long lists and tables. */
function beginningOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.slice(0, mostProblems).map(beginningOf);
  const members = Object.entries(value).slice(0, mostProblems);
  return Object.fromEntries(members.map(([key, member]) => [key, beginningOf(member)]));
}

function refusal(problems: readonly Problem[], locate: Locate): ParsedEval {
  return { ok: false, diagnostics: inFileOrder(problems.map((problem) => placeProblem(problem, locate))) };
}

/** Leaves out problems that are only the consequence of others at or around the same place. */
function notCausedBy(causes: readonly Problem[], problems: readonly Problem[]): Problem[] {
  const unusable = new Set(
    causes.filter((cause) => cause.at === "value" && spoilsItsValue(cause)).map(keyOf),
  );
  const touched = new Set(causes.flatMap((cause) => prefixes(cause.path)));
  return problems.filter((problem) => {
    // What a workflow expects cannot be told while something inside it is wrong.
    if (problem.code === "config/checks-nothing") return !touched.has(keyOf(problem));
    // A key can be wrong besides the value behind it.
    const around = problem.at === "key" ? problem.path.slice(0, -1) : problem.path;
    return !prefixes(around).some((prefix) => unusable.has(prefix));
  });
}

function spoilsItsValue(problem: Problem): boolean {
  return problem.path.length > 0 && problem.code !== "config/missing-key";
}

function keyOf(problem: Problem): string {
  return formatKeyPath(problem.path);
}

function prefixes(path: KeyPath): string[] {
  return path.map((_, index) => formatKeyPath(path.slice(0, index + 1)));
}

function inFileOrder(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  return diagnostics.toSorted(
    (a, b) =>
      (a.location?.line ?? 0) - (b.location?.line ?? 0) ||
      (a.location?.column ?? 0) - (b.location?.column ?? 0),
  );
}
