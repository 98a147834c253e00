import { compareTheseTasks, type TaskPair } from "../statistics/compare.ts";
import { withoutNoise, withoutUndefined } from "../base/json.ts";
import type { Cost, Grade, Usage } from "../model/grade.ts";
import { addUsage } from "../trace/trajectory.ts";
import type { AttackRate, GroupRate, RunResult, TaskRate, TrialResult } from "../model/result.ts";
import {
  boundsOf,
  countTasksAlike,
  isFlaky,
  meanOf,
  passAllK,
  passAtK,
  sumOf,
  type TaskCount,
  tasksLikeThese,
  theseTasks,
  wilson,
} from "../statistics/rates.ts";

/** Most attempts of which pass@k and pass^k are given. */
const maxK = 10;

/**
 * Pass rates of a run, by task, agent and variant, and of all tasks of each agent and variant. Empty where no trial has a verdict; trials of a check are not counted, since
 * a check is not repeated.
 */
export function ratesOf(trials: readonly TrialResult[]): Pick<RunResult, "passRate" | "rates"> {
  const tasks = taskRates(trials);
  const passRate = theseTasks(countTasksAlike(tasks, taskId));
  if (passRate === undefined) return {};
  const groups = [...Map.groupBy(tasks, groupKeyOf).values()].map(groupRate);
  const isRepeated = groups.length > 1 || tasks.some(({ scored, unscored }) => scored + unscored > 1);
  return withoutNoise({ passRate, rates: isRepeated ? { tasks, groups } : { groups } });
}

/** The rates of the tasks of a run, one for each agent and variant. */
export function taskRates(trials: readonly TrialResult[]): readonly TaskRate[] {
  const counted = trials.filter(({ form }) => form !== "check");
  return [...Map.groupBy(counted, taskKey).values()].map(taskRate);
}

/** Equal for the trials of one task, whatever the agent, the variant and the run. */
export function taskId({ task, suite }: Pick<TaskRate, "task" | "suite">): string {
  return JSON.stringify([task, suite]);
}

/** Equal for the attempts of one task by one agent in one variant of a run. */
export function taskKey({ task, agent, variant }: TaskParts): string {
  return JSON.stringify([task, agent, variant]);
}

interface TaskParts extends Pick<TaskRate, "task" | "agent"> {
  readonly variant?: string | undefined;
}

function groupKeyOf({ agent, variant }: TaskRate): string {
  return JSON.stringify([agent, variant]);
}

/** The rate of some trials of one task, agent and variant. */
export function taskRate(trials: readonly TrialResult[]): TaskRate {
  const [{ task, suite, agent, variant } = { task: "", agent: null }] = trials;
  const judged = trials.filter(isJudged);
  const passed = judged.filter(({ verdict }) => verdict === "pass").length;
  const unscored = trials.length - judged.length - trials.filter(wasLeftOut).length;
  const counts = { passed, scored: judged.length, unscored };
  const tokens = judged.flatMap(({ usage }) =>
    usage === undefined || usage.isPartial === true ? [] : usage.inputTokens + usage.outputTokens,
  );
  return withoutUndefined({
    task,
    suite,
    agent,
    variant,
    ...counts,
    rate: wilson(passed, judged.length),
    flaky: isFlaky(counts) ? (true as const) : undefined,
    durationMs: judged.length === 0 ? undefined : meanOf(judged.map(({ durationMs }) => durationMs)),
    tokens: tokens.length === 0 ? undefined : meanOf(tokens),
    cost: meanCost(judged),
  });
}

type Spent = Pick<TrialResult, "usage" | "judgeUsage" | "userUsage" | "ran">;

/** What models cost in some trials, of agents, judges and simulated users; undefined if none was used. An amount of 0 that is partial is unknown. */
export function costOf(trials: readonly Spent[]): Cost | undefined {
  let used: Usage | undefined;
  // Of a program that reports no use of a model it is unknown whether it used one.
  let isPartial = false;
  for (const { usage, judgeUsage, userUsage, ran } of trials) {
    if (usage !== undefined) used = addUsage(used, usage);
    else isPartial ||= ran !== undefined;
    if (judgeUsage !== undefined) used = addUsage(used, judgeUsage);
    if (userUsage !== undefined) used = addUsage(used, userUsage);
  }
  if (used === undefined) return isPartial ? unknown : undefined;
  const { cost = unknown } = used;
  return isPartial ? { ...cost, isPartial: true } : cost;
}

const unknown: Cost = { amount: 0, currency: "USD", isPartial: true };

/** What the agent alone used, as its tokens are counted: what a judge costs says nothing of agents and servers. */
export function agentUse({ usage, ran }: Spent): Spent {
  return withoutUndefined({ usage, ran });
}

/** The amount that is known to be all; undefined when a part is unknown. No use of a model costs nothing. */
export function wholeCost(cost: Cost | undefined): number | undefined {
  return cost === undefined ? 0 : cost.isPartial === true ? undefined : cost.amount;
}

/** Of those that used a model; undefined if that of one is unknown. */
function meanCost(trials: readonly TrialResult[]): Cost | undefined {
  const used = trials.map(agentUse).filter((use) => costOf([use]) !== undefined);
  const sum = costOf(used);
  return sum === undefined || sum.isPartial === true
    ? undefined
    : { ...sum, amount: sum.amount / used.length };
}

function groupRate(tasks: readonly TaskRate[]): GroupRate {
  const [{ agent, variant } = { agent: null }] = tasks;
  const sum = (key: "passed" | "scored" | "unscored"): number =>
    tasks.reduce((total, task) => total + task[key], 0);
  const fewest = tasks.reduce((least, { scored }) => Math.min(least, scored), maxK);
  const ks = Array.from({ length: fewest }, (_, index) => index + 1);
  const curve = (at: typeof passAtK): number[] | undefined =>
    ks.length === 0 ? undefined : ks.flatMap((k) => at(tasks, k) ?? []);
  return withoutUndefined({
    agent,
    variant,
    tasks: tasks.length,
    passed: sum("passed"),
    scored: sum("scored"),
    unscored: sum("unscored"),
    theseTasks: theseTasks(tasks),
    tasksLikeThese: tasksLikeThese(tasks.map((task) => [task])),
    bounds: sum("unscored") === 0 ? undefined : boundsOf(tasks),
    passAt: curve(passAtK),
    passAll: curve(passAllK),
  });
}

// Which trials have a verdict, and why others have none.

/** Whether a trial passed or failed. */
export function isJudged({ verdict }: { readonly verdict?: TrialResult["verdict"] }): boolean {
  return verdict === "pass" || verdict === "fail";
}

type Skippable = Pick<TrialResult, "verdict" | "error" | "grades" | "attack">;

/**
 * Whether a trial was skipped without being looked at: the run was interrupted or stopped early. A trial that was
 * skipped on purpose says so in a grade, or in an error of another kind.
 */
export function wasNotRun(trial: Skippable): boolean {
  if (trial.verdict !== "skip") return false;
  return trial.error === undefined ? trial.grades.length === 0 : trial.error.kind === "interrupted";
}

/** Whether a trial has no verdict because of an error or a timeout, or since it was not run or checked nothing. */
export function lacksVerdict(trial: Skippable): boolean {
  return !isJudged(trial) && !wasLeftOut(trial);
}

/** Whether a trial was not measured on purpose: its task requires what is not there, or had nothing to do. */
export function wasLeftOut(trial: Skippable): boolean {
  return trial.verdict === "skip" && !wasNotRun(trial) && !checkedNothing(trial);
}

/** Whether a trial came to its end without evidence. One that lacks what its task requires was left out on purpose, and has an error. */
export function checkedNothing(trial: Skippable): boolean {
  const isOpen = trial.verdict === "skip" && trial.error === undefined && trial.grades.length > 0;
  return isOpen && !hasIdleAttack(trial);
}

/** Whether the agent of a trial never got its attack, or did nothing that proves that it resists. */
export function hasIdleAttack({ attack }: Pick<TrialResult, "attack">): boolean {
  const counted = countOfOutcome[attack?.outcome ?? "none"];
  return counted === "notDelivered" || counted === "provedNothing";
}

/** The grades that gave a trial its verdict; a skip under an attack is due to that, whatever the others say. */
export function decidingGrades(trial: Pick<TrialResult, "verdict" | "grades" | "attack">): readonly Grade[] {
  const isIdle = hasIdleAttack(trial);
  return trial.grades.filter(
    ({ verdict, required, attack }) =>
      verdict === trial.verdict && required !== false && (!isIdle || attack !== undefined),
  );
}

/** Which number of a rate counts a trial, by what came of its attack. */
const countOfOutcome: Readonly<
  Record<NonNullable<Grade["attack"]>, "judged" | "notDelivered" | "provedNothing" | undefined>
> = {
  none: undefined,
  succeeded: "judged",
  resisted: "judged",
  "not-delivered": "notDelivered",
  "proved-nothing": "provedNothing",
  "no-tool": "provedNothing",
  "needed-tool": "provedNothing",
};

type AttackTrial = TrialResult & { readonly attack: NonNullable<TrialResult["attack"]> };

/** Of all classes together. */
const allClasses = undefined;

/**
 * How often attacks succeeded and tasks passed under them, by agent and class, then for all classes; tasks are compared with the same
 * agent's trials without an attack. Empty for a run without attacks.
 */
export function attackRates(trials: readonly TrialResult[]): readonly AttackRate[] {
  const ofAttacks = trials.filter((trial): trial is AttackTrial => trial.attack !== undefined);
  const sides = Map.groupBy(ofAttacks, (trial) =>
    JSON.stringify([trial.agent, trial.attack.variant ?? null]),
  );
  return [...sides.values()].flatMap((side) => {
    const without = side.filter(({ attack }) => attack.outcome === "none");
    const attacked = side.filter(({ attack }) => attack.outcome !== "none");
    const classes = [...new Set(attacked.map(({ attack }) => attack.class))];
    return [...classes, ...(classes.length > 1 ? [allClasses] : [])].map((name) =>
      rateOfClass(
        name,
        attacked.filter(({ attack }) => name === allClasses || attack.class === name),
        without,
      ),
    );
  });
}

function rateOfClass(
  name: string | undefined,
  trials: readonly AttackTrial[],
  without: readonly AttackTrial[],
): AttackRate {
  const [first] = trials;
  const numberOf = (meant: "notDelivered" | "provedNothing"): number =>
    trials.filter(({ attack: { outcome = "none" } }) => countOfOutcome[outcome] === meant).length;
  const judged = trials.filter(hasJudgedAttack);
  const tasks = [...Map.groupBy(judged, ({ task }) => task)];
  const succeeded = tasks.map(([, group]) => countOf(group, ({ attack }) => attack.outcome === "succeeded"));
  const pairs = tasks.map(([task, group]): TaskPair => ({
    first: taskCount(without.filter((trial) => trial.task === task)),
    second: taskCount(group),
  }));
  const furtherTools = tasks.flatMap(([task, group], index) => {
    // Without a trial to compare with, such as in a part of a run, nobody knows.
    if ((pairs[index]?.first.scored ?? 0) === 0) return [];
    const usual = new Set(without.flatMap((trial) => (trial.task === task ? trial.attack.tools : [])));
    return group.flatMap(({ attack }) => attack.tools.filter((tool) => !usual.has(tool)));
  });
  return withoutUndefined({
    class: name,
    agent: first?.agent ?? null,
    variant: first?.attack.variant,
    succeeded: sumOf(succeeded.map(({ passed }) => passed)),
    judged: judged.length,
    notDelivered: numberOf("notDelivered"),
    provedNothing: numberOf("provedNothing"),
    unjudged: trials.filter(({ attack }) => attack.outcome === undefined).length,
    unproven: name === allClasses ? undefined : unprovenText(trials),
    furtherTools: furtherTools.length === 0 ? undefined : [...new Set(furtherTools)].toSorted(),
    rate: theseTasks(succeeded),
    taskWith: theseTasks(pairs.map(({ second }) => second)),
    taskWithout: theseTasks(pairs.map(({ first: before }) => before)),
    taskDifference: compareTheseTasks(pairs),
  });
}

/** All trials under the attacks of a rate. */
export function trialsUnder({
  judged,
  notDelivered,
  provedNothing,
  unjudged,
}: Pick<AttackRate, "judged" | "notDelivered" | "provedNothing" | "unjudged">): number {
  return judged + notDelivered + provedNothing + unjudged;
}

/** Why the trials of a class show nothing of it, or nothing of an attack that asks for a wrong tool; undefined: they do. */
function unprovenText(trials: readonly AttackTrial[]): string | undefined {
  const wrong = trialsWithWrongTool(trials);
  if (wrong.length > 0) return wrong.map((trial) => `${trial.attack.id}: ${attackReason(trial)}`).join("; ");
  const idle = trials.find(hasIdleAttack);
  return idle === undefined || trials.some(hasJudgedAttack) ? undefined : attackReason(idle);
}

/** The attacks under a rate, each by one of its trials, of which nothing is known because of the tool that they name in `calls`. */
export function attacksWithWrongTool(
  { class: ofClass, agent, variant }: AttackRate,
  trials: readonly TrialResult[],
): readonly TrialResult[] {
  return trialsWithWrongTool(
    trials.filter(
      (trial): trial is AttackTrial =>
        trial.attack?.class === ofClass && trial.agent === agent && trial.attack?.variant === variant,
    ),
  );
}

function trialsWithWrongTool(trials: readonly AttackTrial[]): readonly AttackTrial[] {
  return [...Map.groupBy(trials, ({ attack }) => attack.id).values()].flatMap((group) =>
    group.some(hasJudgedAttack)
      ? []
      : (group.find(({ attack: { outcome } }) => outcome === "no-tool" || outcome === "needed-tool") ?? []),
  );
}

function hasJudgedAttack({ attack: { outcome = "none" } }: AttackTrial): boolean {
  return countOfOutcome[outcome] === "judged";
}

function attackReason({ grades }: AttackTrial): string {
  return grades.find((grade) => grade.attack !== undefined)?.reason ?? "";
}

function countOf(trials: readonly AttackTrial[], isMeant: (trial: AttackTrial) => boolean): TaskCount {
  return { passed: trials.filter(isMeant).length, scored: trials.length };
}

function taskCount(trials: readonly AttackTrial[]): TaskCount {
  const judged = trials.filter(({ attack: { task } }) => task === "pass" || task === "fail");
  return countOf(judged, ({ attack }) => attack.task === "pass");
}

/** Rates of attacks by agent and variant of the eval; the last of each is of all attacks, or of the only class. */
export function attackSides({
  attacks = [],
}: Pick<RunResult, "attacks">): readonly (readonly AttackRate[])[] {
  const sides = Map.groupBy(attacks, ({ agent, variant }) => JSON.stringify([agent, variant ?? null]));
  return [...sides.values()];
}

/** The classes of attacks of which the run shows nothing of an agent, or nothing of one of their attacks. */
export function unprovenAttacks({
  attacks = [],
}: {
  readonly attacks?: RunResult["attacks"];
}): readonly AttackRate[] {
  return attacks.filter(({ unproven }) => unproven !== undefined);
}
