import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import * as z from "zod";
import { McpvalsError, messageOf } from "../base/error.ts";
import { readRegularFile } from "../base/files.ts";
import { asObject, exact, type Json, withoutUndefined } from "../base/json.ts";
import { maxDocumentBytes, maxYamlBytes } from "../base/limits.ts";
import { maxProblems, placeProblems, problemAt, type Problem, repeatedNames } from "../base/problem.ts";
import { type Baseline, baselineSchema } from "../model/baseline.ts";
import { resultSchema, type RunResult } from "../model/result.ts";
import { problemsOfIssues } from "../model/zod-problems.ts";
import { originOf, sideOfBaseline } from "../report/baseline.ts";
import { comparedTrials } from "../report/comparison.ts";
import type { NamedSide } from "../report/documents/compare-sides.ts";
import { replayRun } from "../report/replay.ts";
import type { ComparedTrial } from "../report/documents/compare-runs.ts";
import { readHead, readSettledResult, runState } from "../store/run-files.ts";
import { findRun, readRun, type StoredRun } from "../store/run-folder.ts";
import { localRun } from "./remote.ts";
import { writeError } from "./terminal.ts";

/**
 * Reads a side of a comparison: a result file or a baseline, else a run by its id, the start of it, its folder, or `latest`. Throws McpvalsError of kind
 * `usage`, and that of a run that cannot be read.
 */
export async function readSide(given: string, runs: string): Promise<NamedSide> {
  const name = await localRun(given, runs);
  const path = resolve(name);
  if (/\.(?:json|ya?ml)$/i.test(name) && existsSync(path) && statSync(path).isFile())
    return sideOfFile(name, path);
  const folder = await findRun(runs, name);
  const trials: ComparedTrial[] = [];
  // All of each trial would take much more memory.
  const settled = await readSettledResult(folder, (some) => {
    for (const trial of comparedTrials(some)) trials.push(trial);
  });
  if (settled !== undefined)
    return { ...sideOf(name, settled, trials, interruptionOf(settled)), alias: settled.id };
  const stored = await readRun(runs, name);
  if (stored.torn) writeError(`${name}: the journal's last line is incomplete and was ignored.`);
  return { ...sideOfResult(name, replayRun(stored).result, unfinishedRun(stored)), alias: stored.id };
}

/** Why a run did not come to its end; undefined for one that did. */
function unfinishedRun({ folder, durationMs, interrupted }: StoredRun): string | undefined {
  if (interrupted === true) return "was interrupted";
  if (durationMs !== undefined) return undefined;
  return runState(folder, readHead(folder)) === "running" ? "still goes on" : "was killed before its end";
}

async function sideOfFile(name: string, path: string): Promise<NamedSide> {
  const document = await readDocument(name, path);
  const { schema } = asObject(document);
  if (schema === "mcpvals.baseline/1") return sideOfBaseline(name, checkBaseline(name, document));
  const result = checked(
    name,
    resultSchema,
    document,
    "Write one with: npx mcpvals run … --reporter json=result.json",
  );
  const repeated = repeatedNames(
    result.trials.map(({ id }, index) => ({ name: id, path: ["trials", index, "id"] })),
  ).map(({ name: id, path: at }) => problemAt(at, `is the id of another trial too: ${id}`));
  if (repeated.length > 0) throw refusal(name, repeated);
  return sideOfResult(name, result, interruptionOf(result));
}

const baselineHint = "Write one with: npx mcpvals run … --baseline FILE --update-baseline";

/** Reads a baseline. Throws McpvalsError of kind `usage`. */
export async function readBaseline(name: string): Promise<Baseline> {
  const path = resolve(name);
  if (!existsSync(path))
    throw new McpvalsError("config/unreadable", `there is no baseline ${name}`, { hint: baselineHint });
  return checkBaseline(name, await readDocument(name, path));
}

function checkBaseline(name: string, document: Json): Baseline {
  const baseline = checked(name, baselineSchema, document, baselineHint);
  const problems = baseline.tasks.flatMap(({ passed, scored }, index) =>
    passed <= scored
      ? []
      : [problemAt(["tasks", index, "passed"], `must be at most ${scored}, as scored beside it`)],
  );
  const repeated = repeatedNames(
    baseline.tasks.map(({ task, suite, agent, variant }, index) => ({
      name: JSON.stringify([task, suite, agent, variant]),
      path: ["tasks", index],
    })),
  ).map(({ path }) => problemAt(path, "is there twice, with the same agent and variant"));
  if (problems.length + repeated.length > 0) throw refusal(name, [...problems, ...repeated]);
  return baseline;
}

/** Reads a file as YAML where its name says so, else as JSON. Throws `config/unreadable`. */
async function readDocument(name: string, path: string): Promise<Json> {
  const isYaml = /\.ya?ml$/i.test(name);
  try {
    const text = readRegularFile(path, isYaml ? maxYamlBytes : maxDocumentBytes).toString();
    if (!isYaml) return JSON.parse(text) as Json;
    const { parseStrictYaml } = await import("../base/parse-yaml.ts");
    return parseStrictYaml(text) as Json;
  } catch (cause) {
    const what = isYaml ? "YAML" : "JSON";
    throw new McpvalsError("config/unreadable", `${name} cannot be read as ${what}: ${messageOf(cause)}`, {
      cause,
    });
  }
}

/** The document as its schema has it; what a newer version wrote besides is left alone. Throws McpvalsError of kind `usage`. */
function checked<T>(name: string, schema: z.ZodType<T>, document: Json, hint: string): T {
  // Unlike other files a result may be so large that compiling the schema is worth it.
  const issues = schema.safeParse(document).error?.issues ?? [];
  const wrong = issues.filter(({ code }) => code !== "unrecognized_keys");
  if (wrong.length === 0) return exact(document) as T;
  throw refusal(name, problemsOfIssues(wrong.slice(0, maxProblems), document), hint);
}

/** The error of a file; what is wrong in the same way in several places is said once. */
function refusal(name: string, problems: readonly Problem[], hint?: string): McpvalsError {
  const grouped = problems.map((each) => {
    const message = each.message.replace(/^the config /, "the document ");
    return { ...each, message, sameAs: message.replaceAll(/\[\d+\]|: .*/g, "") };
  });
  const diagnostics = placeProblems(grouped, () => ({ file: name }));
  const [first, ...others] = diagnostics;
  const said =
    first && hint !== undefined
      ? [{ ...first, hint: `${first.hint ?? ""} ${hint}`.trim() }]
      : [first ?? []].flat();
  return new McpvalsError(first?.code ?? "config/invalid-value", `${name} cannot be compared`, {
    diagnostics: [...said, ...others],
  });
}

function interruptionOf({ verdict }: Pick<RunResult, "verdict">): string | undefined {
  return verdict === "interrupted" ? "was interrupted" : undefined;
}

/** A result as a side. Throws `usage/invalid-option` for a check. */
function sideOfResult(name: string, result: RunResult, unfinished?: string): NamedSide {
  return sideOf(name, result, comparedTrials(result.trials), unfinished);
}

/** A result, of which `trials` are those that are compared, as a side. Throws `usage/invalid-option` for a check. */
function sideOf(
  name: string,
  result: RunResult,
  trials: readonly ComparedTrial[],
  unfinished: string | undefined,
): NamedSide {
  if (trials.length === 0 && result.summary.total > 0)
    throw new McpvalsError(
      "usage/invalid-option",
      `${name} is a check, which has findings and no pass rate`,
      {
        hint: "npx mcpvals dashboard shows two checks side by side.",
      },
    );
  return withoutUndefined({
    name,
    unfinished,
    origin: originOf(result),
    agents: result.environment.agents,
    trials: withReported(trials, result),
    fingerprints: result.fingerprints,
    isUntilDecided: result.decisions === undefined ? undefined : (true as const),
    isAttacked: result.attacks === undefined ? undefined : (true as const),
  });
}

/** The trials with the verdicts that another tool reported, in a run in which nothing has a verdict of mcpvals or was graded. */
function withReported(
  trials: readonly ComparedTrial[],
  { gradedFrom }: Pick<RunResult, "gradedFrom">,
): readonly ComparedTrial[] {
  const isGraded =
    gradedFrom !== undefined || trials.some(({ verdict }) => verdict === "pass" || verdict === "fail");
  return trials.map(({ reported, ...trial }) =>
    isGraded || reported === undefined ? trial : { ...trial, reported, verdict: reported.verdict },
  );
}
