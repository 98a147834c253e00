import { type Finding, findingsOf, type RunFinding } from "../../model/finding.ts";
import type { Task } from "../../model/task.ts";
import type { Plan, Trial } from "../../model/plan.ts";
import { withoutUndefined } from "../../base/json.ts";
import type { RunResult, TrialResult } from "../../model/result.ts";
import { unfinishedState } from "../result.ts";
import { agentUse, costOf, decidingGrades, wasLeftOut } from "../rates.ts";
import { verdictReason } from "../text.ts";
import { decidesFailures, decidesOwnFailures } from "../gates.ts";
import { shortened } from "../../base/visible-text.ts";
import { addUsage } from "../../trace/trajectory.ts";
import {
  type GraderRow,
  type PackedRun,
  packRates,
  type RunDocument,
  type RunRow,
  type TrialRow,
} from "./documents.ts";
import { type OptionalMembers, RowPacker } from "./packed-rows.ts";
import type { Usage } from "../../model/grade.ts";

const maxShownReason = 300;

/** The row of a trial that has ended, or of which the end of its run left a part or nothing. */
export function trialRow(trial: TrialResult): TrialRow {
  return withoutUndefined(rowMembers(trial));
}

function rowMembers(trial: TrialResult): OptionalMembers<TrialRow> {
  const {
    id,
    task,
    form,
    suite,
    tool,
    agent,
    variant,
    attempt,
    verdict,
    score,
    usage,
    tools,
    warnings,
    byToolResult,
  } = trial;
  const state = unfinishedState(trial) ?? "ended";
  const known = usage?.isPartial === true ? undefined : usage;
  return {
    id,
    task,
    form,
    suite,
    tool,
    agent: agent ?? undefined,
    variant,
    attempt,
    state,
    verdict,
    isLeftOut: wasLeftOut(trial) ? (true as const) : undefined,
    score: score ?? undefined,
    // The duration of an item without an end is not known.
    durationMs: state === "ended" || trial.durationMs > 0 ? trial.durationMs : undefined,
    inputTokens: known?.inputTokens,
    outputTokens: known?.outputTokens,
    cost: costOf([agentUse(trial)]),
    toolCalls: tools?.toolCalls,
    warnings: warnings?.length,
    byToolResult,
    reason: reasonOf(trial),
  };
}

/** Why a trial did not pass: what broke it, else the first grade of its verdict. */
function reasonOf(trial: TrialResult): string | undefined {
  const { verdict, error, grades } = trial;
  if (verdict === "pass") return undefined;
  const [grade = grades.find((each) => each.verdict !== "pass")] = decidingGrades(trial);
  const reason = error?.message ?? grade?.reason;
  return reason === undefined ? undefined : shortened(reason, maxShownReason);
}

/** The row of a trial that has not ended. */
export function plannedRow(
  { id, agent, variant, attempt }: Trial,
  { name: task, form, suite }: Task,
  state: "waiting" | "running",
): TrialRow {
  return withoutUndefined({ id, task, form, suite, agent: agent ?? undefined, variant, attempt, state });
}

/** Whether a run is a check of servers. */
export function kindOf({ tasks }: Pick<Plan, "tasks">): RunRow["kind"] {
  return tasks.some(({ form }) => form === "check") ? "check" : "run";
}

/** Names of the servers of a run. */
export function serverNames({ servers, taskServers = {} }: RunDocument["environment"]): readonly string[] {
  const own = Object.values(taskServers).flatMap((table) => Object.keys(table ?? {}));
  return [...new Set([...Object.keys(servers), ...own])];
}

/** Adds up what the trials of a run say, so that not all of them need be in memory. */
export class RunTotals {
  readonly #graders = new Map<string, GraderSums>();
  readonly #findings: {
    readonly id: string;
    readonly grades: readonly { readonly findings: readonly Finding[] }[];
  }[] = [];
  #usage: Usage | undefined;
  #judgeUsage: Usage | undefined;
  #userUsage: Usage | undefined;

  add({ id, grades, usage, judgeUsage, userUsage }: TrialResult): void {
    for (const { grader, verdict, score, weight = 1, required } of grades) {
      const sums = this.#graders.get(grader) ?? noGrades();
      this.#graders.set(grader, sums);
      sums[verdict] += 1;
      sums.weights.add(weight);
      if (required === false) sums.notRequired += 1;
      if (score === null) continue;
      sums.score += score;
      sums.scored += 1;
    }
    const found = grades.filter(({ findings }) => findings !== undefined);
    if (found.length > 0)
      this.#findings.push({ id, grades: found.map(({ findings = [] }) => ({ findings })) });
    if (usage !== undefined) this.#usage = addUsage(this.#usage, usage);
    if (judgeUsage !== undefined) this.#judgeUsage = addUsage(this.#judgeUsage, judgeUsage);
    if (userUsage !== undefined) this.#userUsage = addUsage(this.#userUsage, userUsage);
  }

  result(): Pick<RunDocument, "graders" | "findings" | "usage" | "judgeUsage" | "userUsage"> {
    const graders = [...this.#graders].map(([grader, { score, scored, weights, ...counts }]): GraderRow => {
      const mean = scored === 0 ? {} : { score: score / scored };
      return { grader, ...counts, weights: [...weights].toSorted((a, b) => a - b), ...mean };
    });
    const findings: readonly RunFinding[] = findingsOf(this.#findings);
    return withoutUndefined({
      graders,
      findings,
      usage: this.#usage,
      judgeUsage: this.#judgeUsage,
      userUsage: this.#userUsage,
    });
  }
}

type GraderSums = ReturnType<typeof noGrades>;

function noGrades() {
  return {
    pass: 0,
    fail: 0,
    error: 0,
    skip: 0,
    score: 0,
    scored: 0,
    weights: new Set<number>(),
    notRequired: 0,
  };
}

/** The document of a run that has ended, without what is said of it while it runs too. */
export type RunOverview = Omit<PackedRun, keyof RunRow> &
  Pick<RunRow, "verdict" | "durationMs" | "summary" | "passRate" | "passesBy">;

/** What lets a run with failed trials pass; nothing for any other run. */
export function toleranceOf({
  verdict,
  summary,
  gates = [],
}: Pick<RunResult, "verdict" | "summary" | "gates">): Pick<RunRow, "passesBy"> {
  if (verdict !== "pass" || summary.fail === 0) return {};
  const gate =
    gates.find(({ name }) => decidesFailures(name)) ??
    gates.find(({ name }) => decidesOwnFailures.includes(name));
  return {
    passesBy: gate === undefined ? { name: "baseline" } : { name: gate.name, threshold: gate.threshold },
  };
}

/** Why a run has its verdict, where trials that were skipped say enough; the other reasons are in its summary and its thresholds. */
function reasonOfRun(
  result: Omit<RunResult, "trials">,
  skipped: readonly TrialResult[],
): Pick<RunDocument, "reason"> {
  const { verdict, comparison } = result;
  const isOpen = verdict === "incomplete" || verdict === "interrupted";
  if (!isOpen && comparison?.failOn?.exitCode !== 1) return {};
  return { reason: verdictReason({ ...result, trials: skipped }) };
}

/** The trials of a run that has ended, or was cut off, as they are added. */
export class EndedTrials {
  readonly #totals = new RunTotals();
  readonly #rows = new RowPacker<TrialRow>();
  readonly #skipped: TrialResult[] = [];

  addAll(trials: readonly TrialResult[]): void {
    for (const trial of trials) {
      this.#totals.add(trial);
      this.#rows.add(rowMembers(trial));
      if (trial.verdict === "skip") this.#skipped.push(trial);
    }
  }

  /** What is shown of the run. */
  overview(result: Omit<RunResult, "trials">): RunOverview {
    const { verdict, durationMs, summary, environment, gates, judges, coverage, measurements, routing } =
      result;
    const { passRate, rates, attacks, decisions, comparison, fingerprints } = result;
    return withoutUndefined({
      verdict,
      durationMs,
      summary,
      passRate,
      rates: rates && packRates(rates),
      attacks,
      decisions,
      comparison,
      fingerprints,
      environment,
      trials: this.#rows.packed(),
      ...this.#totals.result(),
      ...reasonOfRun(result, this.#skipped),
      ...toleranceOf(result),
      gates,
      judges,
      coverage,
      measurements,
      routing,
    });
  }
}
