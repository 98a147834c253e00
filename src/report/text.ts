import type { AgentSummary } from "../model/agent.ts";
import type { Trial } from "../model/plan.ts";
import { withoutModel } from "../model/without-model.ts";
import { coverageTotals } from "./counters.ts";
import { countWarnings, failuresOf, unfinishedState, summarize } from "./result.ts";
import type { Task } from "../model/task.ts";
import type { Coverage, RunEnvironment, RunResult, RunSummary, TrialResult } from "../model/result.ts";
import type { Piece } from "../base/columns.ts";
import { formatDuration } from "../base/duration.ts";
import { meanOf } from "../statistics/rates.ts";
import { identitiesOf } from "./documents/identities.ts";
import { listNames } from "../base/did-you-mean.ts";
import { clipText, countOf, formatInteger, formatScore, visibleText } from "../base/visible-text.ts";
import { addUsage } from "../trace/trajectory.ts";
import {
  attackSides,
  checkedNothing,
  costOf,
  hasIdleAttack,
  isJudged,
  attacksWithWrongTool,
  decidingGrades,
  unprovenAttacks,
  wasNotRun,
} from "./rates.ts";
import type { Cost, Grade, Usage } from "../model/grade.ts";
import { type Gate, gateText } from "./gates.ts";

/** The score of an agent's trial where the verdict does not say it: all of a pass, or nothing of a fail. */
export function partialScore(trial: TrialResult): string {
  const { agent, verdict, score } = trial;
  if (agent === null || !isJudged(trial)) return "";
  if (score === null || score === Number(verdict === "pass")) return "";
  return `score ${formatScore(score)}`;
}

/** What a name is read from; a planned trial and its result both have it. */
export type Nameable = Pick<TrialResult, "task" | "agent" | "attempt" | "form"> & {
  readonly suite?: string | undefined;
  /** The tool of a tool test. */
  readonly tool?: string | undefined;
  readonly variant?: string | undefined;
};

/** Whether a run has several agents, sets of servers or attempts, so that names must say which one is meant. */
export interface Variety {
  readonly agents: boolean;
  readonly variants: boolean;
  readonly attempts: boolean;
}

/** Whether a task can have several trials in a run. */
export function hasSeveral({ agents, variants, attempts }: Variety): boolean {
  return agents || variants || attempts;
}

/** Finds out which variants trials come in. */
export function varietyOf(trials: readonly Pick<Trial, "agent" | "variant" | "attempt">[]): Variety {
  const agents = new Set<string>();
  const variants = new Set<string>();
  let attempts = false;
  for (const { agent, variant, attempt } of trials) {
    if (agent !== null) agents.add(agent);
    if (variant !== undefined) variants.add(variant);
    if (attempt > 1) attempts = true;
  }
  return { agents: agents.size > 1, variants: variants.size > 0, attempts };
}

const groups: Readonly<Record<Nameable["form"], string>> = {
  workflow: "workflows",
  "tool-test": "tool tests",
  task: "tasks",
  check: "checks",
};

/** The name of the group that a trial is shown under: its suite, or what it is. */
export function groupName(trial: Pick<Nameable, "suite" | "form">): string {
  return trial.suite === undefined ? groups[trial.form] : visibleText(trial.suite);
}

/** A task's name within its group: without the suite's name where the task repeats it; of a tool test `TOOL › DESCRIPTION`. */
export function taskTitle({ task, suite, tool }: Pick<Nameable, "task" | "suite" | "tool">): string {
  if (suite === undefined || !task.startsWith(suite)) return visibleText(task);
  const rest = /^\s*(?:::|[/›>:.·])\s*(\S.*)$/su.exec(task.slice(suite.length));
  const title = rest?.[1] ?? task;
  // Without a description the title is the tool, with a number where there are several.
  const isNamed = tool === undefined || title.replace(/ \d+$/, "") === tool;
  return visibleText(isNamed ? title : `${tool} › ${title}`);
}

/** Where a task stands: `FILE:LINE`; undefined where that is not known. */
export function taskPlace(task: Pick<Task, "location"> | undefined): string | undefined {
  const { file, line } = task?.location ?? {};
  if (file === undefined) return undefined;
  return visibleText(line === undefined ? file : `${file}:${line}`);
}

/** How many there are of what has a place for each task, agent and variant, beside others: they are tasks only in a run with one agent and variant. */
export function othersOf(count: number, { agents, variants }: Variety, task = "more task"): string {
  return agents || variants ? `${formatInteger(count)} more` : countOf(count, task);
}

/** A task's name with its group in front, for places without a heading. */
export function fullTitle(trial: Nameable): string {
  return trial.suite === undefined ? taskTitle(trial) : `${groupName(trial)} › ${taskTitle(trial)}`;
}

/** Which agent, set of servers and attempt a trial is, where a run has several; empty otherwise. */
export function variantName(
  { agent, variant, attempt }: Pick<Nameable, "agent" | "variant" | "attempt">,
  variety: Variety,
): string {
  const parts = [
    ...(variety.agents && agent !== null ? [visibleText(agent)] : []),
    ...(variety.variants && variant !== undefined ? [visibleText(variant)] : []),
    ...(variety.attempts ? [`attempt ${attempt}`] : []),
  ];
  return parts.join(" · ");
}

/** Says who an agent is: its model, or that it is a written plan; and where a program is not alone in its trial. */
export function describeAgent({ name, type, model, home }: AgentSummary): string {
  const what = model ?? withoutModel[type] ?? type;
  const where = home === "user" ? ", in the home of the user" : "";
  return `${visibleText(name)} (${visibleText(what)}${where})`;
}

/** The agents among the configured ones that have trials. */
export function agentsIn(
  trials: readonly { readonly agent: string | null }[],
  agents: readonly AgentSummary[],
): AgentSummary[] {
  const names = new Set(trials.map((trial) => trial.agent));
  return agents.filter((agent) => names.has(agent.name));
}

/** Whether a judge was asked for a grade, with or without a verdict. */
function hasAskedJudge({ judge, judged, error }: Grade): boolean {
  return (
    (judge ?? judged) !== undefined ||
    error?.code.startsWith("judge/") ||
    (error?.code.startsWith("model/") === true && !["model/no-key", "model/no-package"].includes(error.code))
  );
}

/**
 * What models took part, as short sentences: tokens by agent, `no model took part`, or that a model was configured
 * and none answered; and who judged. Empty when it is not known, as with agents that run their own.
 */
export function describeModels(
  trials: readonly TrialResult[],
  { agents, judge, userModel }: Pick<RunEnvironment, "agents" | "judge" | "userModel">,
): string[] {
  const used = new Map<string | null, Usage>();
  const firstTokens = new Map<string | null, number[]>();
  let asked: Usage | undefined;
  let played: Usage | undefined;
  const isAsked = trials.some(
    ({ judgeUsage, grades }) => judgeUsage !== undefined || grades.some(hasAskedJudge),
  );
  for (const { agent, usage, judgeUsage, userUsage, firstTokenMs } of trials) {
    if (firstTokenMs !== undefined) {
      const times = firstTokens.get(agent) ?? [];
      times.push(firstTokenMs);
      firstTokens.set(agent, times);
    }
    if (usage !== undefined) used.set(agent, addUsage(used.get(agent), usage));
    if (judgeUsage !== undefined) asked = addUsage(asked, judgeUsage);
    if (userUsage !== undefined) played = addUsage(played, userUsage);
  }
  const tokens = asked === undefined ? "" : ` (${describeUsage(asked)})`;
  const judged = [
    ...(played === undefined || userModel === undefined
      ? []
      : [`users played by ${visibleText(userModel.model)} (${describeUsage(played)})`]),
    ...(judge === undefined || !isAsked ? [] : [`judged by ${visibleText(judge.model)}${tokens}`]),
  ];
  if (used.size > 0) {
    const acted = [...used].map(([agent, usage]) => {
      const who = used.size > 1 && agent !== null ? `${visibleText(agent)}: ` : "";
      const times = firstTokens.get(agent) ?? [];
      const begun =
        times.length === 0 ? "" : `, first token after ${formatDuration(meanOf(times))} on average`;
      return `${who}${describeUsage(usage)}${begun}`;
    });
    return [...acted, ...judged];
  }
  const acting = agentsIn(trials, agents);
  if (acting.some((agent) => agent.model !== undefined)) return ["no model answered", ...judged];
  const isKnown = acting.every((agent) => agent.type in withoutModel);
  return [...(isKnown ? [judged.length === 0 ? "no model took part" : "no model acted"] : []), ...judged];
}

/** Which programs ran as agents, as they reported, with the models that answered: `codex 0.169.0 with gpt-5.5`. */
export function describePrograms(
  trials: readonly TrialResult[],
  { agents }: Pick<RunEnvironment, "agents">,
): string[] {
  if (trials.every(({ ran }) => ran === undefined)) return [];
  const ran = identitiesOf(agents, trials).filter(({ programs }) => programs !== undefined);
  return ran.map(({ name, programs = [], models = [] }) => {
    const who = ran.length > 1 ? `${name}: ` : "";
    const answered = models.length === 0 ? "" : ` with ${models.join(", ")}`;
    return visibleText(`${who}${programs.join(", ")}${answered}`);
  });
}

/** A cost in words: `$0.12`, `at least $0.12`, `unknown`. */
export function costText({ amount, currency, isPartial }: Cost): string {
  if (isPartial !== true) return moneyText(amount, currency);
  return amount === 0 ? "unknown" : `at least ${moneyText(amount, currency)}`;
}

/** An amount of money: `$12.30`, `$0.0042`, `0.12 EUR`. */
export function moneyText(amount: number, currency: string): string {
  const digits =
    amount === 0
      ? "0"
      : amount < 0.995
        ? plainNumber(amount)
        : amount.toFixed(2).replaceAll(/\B(?=(\d{3})+\.)/gu, ",");
  return currency === "USD" ? `$${digits}` : `${digits} ${currency}`;
}

/** Two digits that are not 0. */
function plainNumber(amount: number): string {
  const places = Math.min(10, 1 - Math.floor(Math.log10(amount)));
  return amount.toFixed(places);
}

/** What models cost in all trials, as a short text; empty when none was used, and when nothing is known since there were no prices. */
export function describeCost({
  trials,
  environment: { prices },
}: Pick<RunResult, "trials" | "environment">): string {
  const cost = trials.every(
    ({ usage, judgeUsage, userUsage }) => (usage ?? judgeUsage ?? userUsage) === undefined,
  )
    ? undefined
    : costOf(trials);
  if (cost === undefined) return "";
  const isUnknown = cost.isPartial === true && cost.amount === 0;
  return isUnknown && prices === undefined ? "" : `cost ${costText(cost)}`;
}

/** How long trials waited because of a provider's rate limit, as a short text; empty when none did. */
export function describeThrottling(trials: readonly TrialResult[]): string {
  const waits = trials.flatMap(({ throttledMs }) => throttledMs ?? []);
  if (waits.length === 0) return "";
  const sum = formatDuration(waits.reduce((total, ms) => total + ms, 0));
  return `${countOf(waits.length, "trial")} waited ${sum} for the rate limit of a model's provider`;
}

function describeUsage({ inputTokens, outputTokens, cacheReadTokens, requests, isPartial }: Usage): string {
  const cached = cacheReadTokens === undefined ? "" : ` (${formatInteger(cacheReadTokens)} cached)`;
  const least = isPartial === true ? "at least " : "";
  const tokens = `${least}${formatInteger(inputTokens)} tokens in${cached}, ${formatInteger(outputTokens)} out`;
  // Some programs tell tokens and not how often they asked.
  return requests === undefined ? tokens : `${tokens}, ${countOf(requests, "model request")}`;
}

/** How much of what servers list was used: `3/4 tools (75 %), 5/9 parameters (55 %)`; empty when nothing was listed. */
export function describeCoverage(coverage: Coverage): string {
  return coverageTotals(coverage)
    .map(({ kind, used, total }) => {
      // Rounded down: only all is 100 %.
      const percent = Math.floor((100 * used) / total);
      return `${formatInteger(used)}/${formatInteger(total)} ${kind} (${percent} %)`;
    })
    .join(", ");
}

const maxShownUnused = 100;

/** Items that no trial used, in a line: `tools: add, echo`. */
export function gapText({
  what,
  names,
}: {
  readonly what: string;
  readonly names: readonly string[];
}): string {
  const rest = names.length - maxShownUnused;
  const shown = names.slice(0, maxShownUnused).map((name) => clipText(name, 120));
  return `${what}: ${shown.join(", ")}${rest > 0 ? ` and ${formatInteger(rest)} more` : ""}`;
}

/** The servers in whose place mocks stood, as a short text; empty when there were none. */
export function describeMocks(trials: readonly TrialResult[]): string {
  const mocked = trials.filter(({ mocks = [] }) => mocks.length > 0);
  const names = [...new Set(mocked.flatMap(({ mocks = [] }) => mocks))];
  if (names.length === 0) return "";
  const some =
    mocked.length === trials.length ? "" : ` in ${countOf(mocked.length, "trial")} of ${trials.length}`;
  return `${names.map(visibleText).join(", ")}${some}`;
}

const maxShownReason = 1000;

/** Why a trial did not pass, in one line: its error, or what its graders say. */
export function trialReason(trial: TrialResult): string {
  const { verdict, error } = trial;
  if (error !== undefined) return clipText(error.message, maxShownReason);
  const reported = decidingGrades(trial);
  if (reported.length === 0) return verdict === "skip" ? "not run" : verdict;
  return clipText(reported.map((grade) => `${grade.grader}: ${grade.reason}`).join("; "), maxShownReason);
}

/** Says of a run that it only graded the record of another one, or that recordings took the place of servers or models; empty otherwise. */
export function recordText({
  gradedFrom,
  environment,
}: Pick<RunResult, "gradedFrom" | "environment">): string {
  const { replayed } = environment;
  const replay = replayed === undefined ? [] : [`${replayed.join(" and ")} replayed from recordings`];
  if (gradedFrom === undefined) return replay.join("");
  const { id, startedAt } = gradedFrom;
  const graded = `graded again from the record of run ${id}, which began ${startedAt}`;
  return visibleText([graded, ...replay].join("; "));
}

/** What the trials alone do not say of the verdict: a threshold, warnings, what was not evaluated; empty otherwise. */
export function verdictReason(result: RunResult): string {
  const { usedUp } = result.budget ?? {};
  const stopped = usedUp === undefined ? [] : [`No further trial began: ${visibleText(usedUp)}.`];
  return [reasonOf(result), ...stopped].filter((text) => text !== "").join(" ");
}

function reasonOf(result: RunResult): string {
  const { verdict, summary, trials, maxWarnings = Infinity, gates = [], decisions = [], comparison } = result;
  const { total, pass, fail, error, timeout } = summary;
  const notRun = trials.filter(wasNotRun).length;
  const gatesText = (which: Gate["verdict"]): string =>
    gates
      .filter((gate) => gate.verdict === which)
      .map(gateText)
      .join("; ");
  if (verdict === "fail") {
    const low = [gatesText("fail"), comparedText(comparison, 1)].filter((text) => text !== "");
    if (low.length > 0) return `Failed: ${low.join("; ")}.`;
    if (failuresOf(trials, result).length > 0) return "";
    return `Failed: ${countOf(countWarnings(trials), "warning")}; --max-warnings allows ${maxWarnings}.`;
  }
  if (verdict === "pass")
    return fail === 0
      ? ""
      : `Passed, though ${countOf(fail, "trial")} failed: ${[gatesText("pass"), comparedText(comparison, 0)].filter((text) => text !== "").join("; ")}.`;
  if (verdict === "interrupted") {
    const before = notRun === 0 ? "" : ` before ${countOf(notRun, "trial")} of ${total} could finish`;
    const cutOff = trials.filter((trial) => unfinishedState(trial) === "cut-off").length;
    const begun =
      cutOff === 0 ? "" : `: ${formatInteger(cutOff)} cut off, ${formatInteger(notRun - cutOff)} not run`;
    return `The run was interrupted${before}${begun}.`;
  }
  const reasons = [
    ...(error > 0 ? [countOf(error, "error")] : []),
    ...(timeout > 0 ? [countOf(timeout, "timeout")] : []),
    ...(notRun > 0 ? [`${notRun} not run`] : []),
  ];
  const open = error + timeout + notRun;
  if (total === 0) return "Incomplete: no trial ran.";
  if (open > 0) return `Incomplete: ${fail} failed, ${open} not evaluated (${reasons.join(", ")}).`;
  const undecided = decisions.find((decision) => decision.verdict === "undecided");
  if (undecided !== undefined)
    return `Incomplete: what --until decided was to find out is undecided after ${countOf(undecided.rounds, "round")}.`;
  const unmeasured = [gatesText("incomplete"), comparedText(comparison, 3)]
    .filter((text) => text !== "")
    .join("; ");
  if (unmeasured !== "") return `Incomplete: ${unmeasured}.`;
  if (pass + fail === 0) return "Incomplete: every trial was skipped.";
  const idle = trials.filter(checkedNothing).length;
  return idle > 0 ? `Incomplete: ${countOf(idle, "trial")} checked nothing.` : unprovenReason(result);
}

/** Says of which classes of attacks a run shows nothing, why, and what to do. */
function unprovenReason(result: RunResult): string {
  const isOne = attackSides(result).length === 1;
  const rates = unprovenAttacks(result);
  const unproven = rates.map(({ class: ofClass = "", agent, variant, unproven: why = "" }) => {
    const side = [agent, variant].filter((name) => name != null).join(" · ");
    return { name: isOne ? ofClass : `${ofClass} on ${side}`, why };
  });
  const causes = [...Map.groupBy(unproven, ({ why }) => why)].map(
    ([why, group]) => `${listNames(group.map(({ name }) => name))} (${why})`,
  );
  const { wrongTool = [], others = [] } = Object.groupBy(rates, (rate) =>
    attacksWithWrongTool(rate, result.trials).length > 0 ? "wrongTool" : "others",
  );
  const hints = [
    ...(wrongTool.length > 0 ? ["Name in calls a tool that the agent has and no task needs."] : []),
    ...(others.length > 0
      ? ["Give the agent tasks in which it gets them, or leave a class out: --attack '!CLASS'."]
      : []),
  ];
  return `Incomplete: nothing is known of these attacks: ${visibleText(causes.join("; "))}. ${hints.join(" ")}`;
}

/** What a comparison says of a run of which it decides, where it comes to an exit code; empty otherwise. */
function comparedText(comparison: RunResult["comparison"], exit: 0 | 1 | 3): string {
  const { failOn, first = "", compared: [only] = [] } = comparison ?? {};
  if (failOn?.exitCode !== exit || only === undefined) return "";
  const baseline = visibleText(first);
  const asked = `--fail-on ${failOn.verdict}`;
  switch (only.verdict) {
    case "better":
    case "worse":
      return `it is ${only.verdict} than ${baseline} (${asked})`;
    case "equivalent":
      return `it is as good as ${baseline} (${asked})`;
    case "undecided":
      return `it is undecided whether it is better or worse than ${baseline} (${asked})`;
  }
}

/** How many passes rest on a tool's result and not on the answer, in words; empty where none does. */
export function byResultText({ byToolResult }: Pick<RunSummary, "byToolResult">): readonly string[] {
  return byToolResult === undefined ? [] : [`${formatInteger(byToolResult)} by the tool's result only`];
}

const maxShownTaskNames = 12;

/** The number and the tasks of the passes that rest on a tool's result and not on the answer, in a sentence; empty where none does. */
export function byResultSentence(trials: readonly TrialResult[]): string {
  const found = trials.filter(({ byToolResult }) => byToolResult === true);
  if (found.length === 0) return "";
  const tasks = [...new Set(found.map((trial) => clipText(fullTitle(trial), 80)))];
  const more = tasks.length > maxShownTaskNames ? ` and ${tasks.length - maxShownTaskNames} more` : "";
  return `${formatInteger(found.length)} of ${formatInteger(summarize(trials).pass)} passed by the tool's result only: ${tasks.slice(0, maxShownTaskNames).join(", ")}${more}`;
}

/** The counts that are not zero, in words: `4 passed`, `1 failed`. */
export function countPieces(summary: Omit<RunSummary, "total">): Piece[] {
  const { pass, fail, error, timeout, skip, serverErrors = 0 } = summary;
  const byResult = byResultText(summary).map((text) => ` (${text})`);
  const byServer = serverErrors === 0 ? "" : ` (${formatInteger(serverErrors)} by a server)`;
  const pieces: readonly (readonly [number, Piece])[] = [
    [pass, { text: `${formatInteger(pass)} passed${byResult.join("")}`, tone: "good" }],
    [fail, { text: `${formatInteger(fail)} failed`, tone: "bad" }],
    [error, { text: `${countOf(error, "error")}${byServer}`, tone: "warn" }],
    [timeout, { text: countOf(timeout, "timeout"), tone: "warn" }],
    [skip, { text: `${formatInteger(skip)} skipped`, tone: "dim" }],
  ];
  return pieces.flatMap(([count, piece]) => (count > 0 ? [piece] : []));
}

/** Texts about trials, each with the trials that have it. */
export type Remarks = readonly (readonly [text: string, trials: readonly TrialResult[]])[];

/** Why trials were skipped. A part of a check that had nothing to do is left out. */
export function skipRemarks(trials: readonly TrialResult[]): Remarks {
  const skipped = trials.filter((trial) => trial.verdict === "skip" && !hadNothingToDo(trial));
  return [...Map.groupBy(skipped, skipReason)];
}

/** The warnings of trials. */
export function warningRemarks(trials: readonly TrialResult[]): Remarks {
  return remarksBy(trials, ({ warnings = [] }) => warnings);
}

/** What graders that trials pass without say against those that passed; others are explained with all of their grades. */
export function optionalRemarks(trials: readonly TrialResult[]): Remarks {
  return remarksBy(trials, (trial) => (trial.verdict === "pass" ? unmetOptional(trial) : []));
}

function remarksBy(
  trials: readonly TrialResult[],
  textsOf: (trial: TrialResult) => readonly string[],
): Remarks {
  const found = trials.flatMap((trial) => [...new Set(textsOf(trial))].map((text) => ({ trial, text })));
  const groups = [...Map.groupBy(found, ({ text }) => text)];
  return groups.map(([text, group]) => [text, group.map(({ trial }) => trial)]);
}

/** Whether a trial is a part of a check that had nothing to do; its line says why. */
export function hadNothingToDo({ error }: TrialResult): boolean {
  return error?.code === "check/nothing-to-do";
}

function skipReason(trial: TrialResult): string {
  if (trial.error !== undefined) return trial.error.message;
  if (wasNotRun(trial)) return "not run";
  const grades = hasIdleAttack(trial) ? decidingGrades(trial) : trial.grades;
  return [...new Set(grades.map((grade) => grade.reason))].join("; ");
}

/** The name of a trial with its agent, variant and attempt where the run has several. */
export function trialTitle(trial: TrialResult, variety: Variety): string {
  const variant = variantName(trial, variety);
  return variant === "" ? fullTitle(trial) : `${fullTitle(trial)} · ${variant}`;
}

/** The name of the only trial that a remark is about, otherwise how many it is about. */
export function remarkSubject(trials: readonly TrialResult[], variety: Variety): string {
  const [first] = trials;
  return trials.length === 1 && first !== undefined
    ? clipText(trialTitle(first, variety), 120)
    : countOf(trials.length, "trial");
}

/** What graders that a trial passes without say against it. */
export function unmetOptional({ grades }: Pick<TrialResult, "grades">): readonly string[] {
  return grades
    .filter(({ verdict, required }) => required === false && (verdict === "fail" || verdict === "error"))
    .map(({ error, ...grade }) => {
      const hint = error?.hint === undefined ? "" : `. ${error.hint}`;
      return `${gradeTitle(grade)}  ${clipText(`${grade.reason}${hint}`, 300)}`;
    });
}

/** The name of a grade, with its score and with its weight unless that is 1. */
export function gradeTitle({ grader, verdict, score, weight }: Grade): string {
  const note = verdict === "error" ? " gave no verdict" : score === null ? "" : ` ${formatScore(score)}`;
  return `${weighted(grader, weight)}${note}`;
}

/** The name of a grader, with its weight unless that is 1. */
export function weighted(grader: string, weight = 1): string {
  return `${clipText(grader, 80)}${weight === 1 ? "" : ` (weight ${weight})`}`;
}
