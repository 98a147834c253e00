import { withoutUndefined } from "../base/json.ts";
import { noAttack } from "../model/attack.ts";
import type { AttackRate, RunResult, TrialResult } from "../model/result.ts";
import { compareTheseTasks, type TaskPair } from "../statistics/compare.ts";
import { sumOf, type TaskCount, theseTasks } from "../statistics/rates.ts";

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
    JSON.stringify([trial.agent, attackedVariant(trial) ?? null]),
  );
  return [...sides.values()].flatMap((side) => {
    const without = side.filter(({ attack }) => attack.id === noAttack);
    const attacked = side.filter(({ attack }) => attack.id !== noAttack);
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

/** The variant of the eval that was attacked; undefined: it has none. */
function attackedVariant({ variant = "", attack }: AttackTrial): string | undefined {
  return variant === attack.id ? undefined : variant.slice(0, -` · ${attack.id}`.length);
}

function rateOfClass(
  name: string | undefined,
  trials: readonly AttackTrial[],
  without: readonly AttackTrial[],
): AttackRate {
  const [first] = trials;
  const given = trials.filter(({ attack: { outcome } }) => outcome === "succeeded" || outcome === "resisted");
  const tasks = [...Map.groupBy(given, ({ task }) => task)];
  const succeeded = tasks.map(([, group]) => countOf(group, ({ attack }) => attack.outcome === "succeeded"));
  const pairs = tasks.map(([task, group]): TaskPair => ({
    first: taskCount(without.filter((trial) => trial.task === task)),
    second: taskCount(group),
  }));
  return withoutUndefined({
    class: name,
    agent: first?.agent ?? null,
    variant: first && attackedVariant(first),
    succeeded: sumOf(succeeded.map(({ passed }) => passed)),
    delivered: given.length,
    notDelivered: trials.filter(({ attack }) => attack.outcome === "not-delivered").length,
    unjudged: trials.filter(({ attack }) => attack.outcome === undefined).length,
    rate: theseTasks(succeeded),
    taskWith: theseTasks(pairs.map(({ second }) => second)),
    taskWithout: theseTasks(pairs.map(({ first: before }) => before)),
    taskDifference: compareTheseTasks(pairs),
  });
}

function countOf(trials: readonly AttackTrial[], isMeant: (trial: AttackTrial) => boolean): TaskCount {
  return { passed: trials.filter(isMeant).length, scored: trials.length };
}

function taskCount(trials: readonly AttackTrial[]): TaskCount {
  const judged = trials.filter(({ attack: { task } }) => task === "pass" || task === "fail");
  return countOf(judged, ({ attack }) => attack.task === "pass");
}

/** Whether some agent got none of the attacks, so that nothing is known of it. */
export function isUnattacked({ attacks = [] }: Pick<RunResult, "attacks">): boolean {
  const sides = Map.groupBy(attacks, ({ agent, variant }) => JSON.stringify([agent, variant ?? null]));
  return [...sides.values()].some((rates) => rates.every(({ delivered }) => delivered === 0));
}
