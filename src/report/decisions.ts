import { countOf, percentText, pointsText, signedPoints } from "../base/visible-text.ts";
import { lowerBound } from "../graders/measurements/metrics.ts";
import type { Thresholds } from "../model/eval.ts";
import type { Plan } from "../model/plan.ts";
import type { Decision, TrialResult } from "../model/result.ts";
import { ConfidenceSequence } from "../statistics/sequential.ts";
import { wasLeftOut } from "./rates.ts";
import { meanOf } from "../statistics/rates.ts";

type Outcome = Pick<TrialResult, "task" | "agent" | "attempt" | "verdict" | "error" | "grades"> & {
  readonly variant?: string | undefined;
};

/** What a round says of a question: between which values its sample is, since trials without a verdict could have had either. */
interface Sample {
  readonly low: number;
  readonly high: number;
}

interface Question {
  /** From the trials of a round, from 0 to 1; undefined: it says nothing. */
  readonly sample: (round: readonly Outcome[]) => Sample | undefined;
  readonly decide: (interval: Sample, rounds: Rounds) => Decision;
  /** Of the values at their lowest, and at their highest. */
  readonly low: ConfidenceSequence;
  readonly high: ConfidenceSequence;
}

interface Rounds {
  readonly rounds: number;
  readonly maxRounds: number;
}

/**
 * What a run with `until` is to decide: whether each variant is better than the first, else each agent, and whether thresholds of the pass rate are met.
 * A round, all trials of one attempt, is one sample; its intervals hold at 95 % for all questions together, however often one looks.
 * A trial without a verdict counts against every decision, but for one that was left out on purpose.
 */
export class Decisions {
  readonly #questions: readonly Question[];
  readonly #maxRounds: number;
  /** Number of trials of a whole round. */
  readonly #size: number;
  /** Trials of rounds that are not complete, by attempt. */
  readonly #open = new Map<number, Outcome[]>();
  #rounds = 0;

  /** Without `until`, or with nothing to decide, there are no decisions. */
  constructor(plan: Pick<Plan, "trials" | "thresholds" | "until">) {
    const { until, trials } = plan;
    this.#maxRounds = until?.maxTrials ?? 0;
    this.#size = trials.filter(({ attempt }) => attempt === 1).length;
    this.#questions = until === undefined ? [] : questionsOf(plan);
  }

  get hasQuestions(): boolean {
    return this.#questions.length > 0;
  }

  /** Adds a trial that has ended, in any order. */
  add(result: Outcome): void {
    const { attempt, error } = result;
    if (!this.hasQuestions || error?.kind === "interrupted") return;
    const round = this.#open.get(attempt) ?? [];
    round.push(result);
    this.#open.set(attempt, round);
    for (let next = this.#open.get(this.#rounds + 1); next?.length === this.#size;) {
      this.#open.delete(this.#rounds + 1);
      this.#rounds += 1;
      for (const { sample, low, high } of this.#questions) {
        const value = sample(next);
        if (value === undefined) continue;
        low.add(value.low);
        high.add(value.high);
      }
      next = this.#open.get(this.#rounds + 1);
    }
  }

  /** Whether every question is decided. */
  get areMade(): boolean {
    return this.hasQuestions && this.result().every(({ verdict }) => verdict !== "undecided");
  }

  result(): readonly Decision[] {
    const rounds = { rounds: this.#rounds, maxRounds: this.#maxRounds };
    return this.#questions.map(({ decide, low, high }) =>
      decide({ low: rounded(low.interval.low), high: rounded(high.interval.high) }, rounds),
    );
  }
}

/** The decisions of the trials of a run; undefined where it had none to make. */
export function decisionsOf(trials: readonly Outcome[], plan: Plan): readonly Decision[] | undefined {
  const decisions = new Decisions(plan);
  if (!decisions.hasQuestions) return undefined;
  for (const trial of trials) decisions.add(trial);
  return decisions.result();
}

/** The thresholds that more rounds can decide: those of the pass rate, but for 1, since no number of trials shows that all would pass. */
export function decidableThresholds(thresholds: Thresholds): readonly string[] {
  return ["passRate", lowerBound].filter((name) => (thresholds[name] ?? 1) < 1);
}

function questionsOf({
  trials,
  thresholds = {},
  until,
}: Pick<Plan, "trials" | "thresholds" | "until">): readonly Question[] {
  const variants = [...new Set(trials.flatMap(({ variant }) => variant ?? []))];
  const agents = [...new Set(trials.flatMap(({ agent }) => agent ?? []))];
  const by = variants.length > 1 ? "variant" : "agent";
  const [first = "", ...others] = by === "variant" ? variants : agents;
  const wanted = decidableThresholds(thresholds).flatMap((threshold) =>
    // Every variant has to reach this one.
    threshold === lowerBound && variants.length > 0
      ? variants.map((variant) => ({ threshold, variant }))
      : [{ threshold }],
  );
  const alpha = 0.05 / (others.length + wanted.length);
  const inRound = trials.filter(({ attempt }) => attempt === 1).length;
  const sequences = (variance: number): Pick<Question, "low" | "high"> => ({
    low: new ConfidenceSequence({ alpha, variance }),
    high: new ConfidenceSequence({ alpha, variance }),
  });
  const comparisons = others.map((second): Question => {
    const pairs = inRound / (others.length + 1);
    return {
      sample: (round) => differenceIn(round, by, first, second),
      decide: (interval, rounds) => {
        const [low, high] = [2 * interval.low - 1, 2 * interval.high - 1].map(rounded) as [number, number];
        const { margin } = until ?? {};
        const common = { kind: "comparison", by, first, second, low, high, ...rounds } as const;
        return {
          ...common,
          verdict: verdictOf(low, high, margin),
          ...(margin === undefined ? {} : { margin }),
        };
      },
      // Of the difference of two means of so many trials that pass in half of all cases, from -1 to 1 as from 0 to 1.
      ...sequences(1 / (8 * pairs)),
    };
  });
  const gates = wanted.map((asked: { threshold: string; variant?: string }): Question => {
    const { threshold, variant } = asked;
    const value = thresholds[threshold] ?? 0;
    const isMeant = (trial: Pick<Outcome, "variant">): boolean =>
      variant === undefined || trial.variant === variant;
    return {
      sample: (round) => rateIn(round.filter(isMeant)),
      decide: ({ low, high }, rounds) => {
        const verdict = low >= value ? "met" : high < value ? "missed" : "undecided";
        return { kind: "threshold", ...asked, value, verdict, low, high, ...rounds };
      },
      ...sequences(1 / (4 * trials.filter((trial) => trial.attempt === 1 && isMeant(trial)).length)),
    };
  });
  return [...comparisons, ...gates];
}

function verdictOf(low: number, high: number, margin = 0): "better" | "worse" | "equivalent" | "undecided" {
  if (low > -margin && high < margin) return "equivalent";
  return low > 0 ? "better" : high < 0 ? "worse" : "undecided";
}

/** The mean difference of two sides in a round, brought from the range of -1 to 1 to that of 0 to 1. */
function differenceIn(
  round: readonly Outcome[],
  by: "variant" | "agent",
  first: string,
  second: string,
): Sample | undefined {
  return meanOfTasks(round, (trials) => {
    const pairs = Map.groupBy(trials, ({ agent, variant }) => (by === "variant" ? agent : variant));
    return [...pairs.values()].flatMap((pair): Sample[] => {
      const [before, after] = [first, second].map((name) => passOf(pair.find((trial) => trial[by] === name)));
      if (before === undefined || after === undefined) return [];
      return [{ low: (after.low - before.high + 1) / 2, high: (after.high - before.low + 1) / 2 }];
    });
  });
}

function rateIn(round: readonly Outcome[]): Sample | undefined {
  return meanOfTasks(round, (trials) => trials.flatMap((trial) => passOf(trial) ?? []));
}

/** Each task counts the same, whatever its agents and variants. */
function meanOfTasks(
  round: readonly Outcome[],
  samplesOf: (trials: readonly Outcome[]) => readonly Sample[],
): Sample | undefined {
  const tasks = [...Map.groupBy(round, ({ task }) => task).values()];
  return meanSample(tasks.flatMap((trials) => meanSample(samplesOf(trials)) ?? []));
}

function meanSample(samples: readonly Sample[]): Sample | undefined {
  if (samples.length === 0) return undefined;
  return { low: meanOf(samples.map(({ low }) => low)), high: meanOf(samples.map(({ high }) => high)) };
}

/** Undefined for a trial that was left out on purpose, as it is in rates. */
function passOf(trial: Outcome | undefined): Sample | undefined {
  if (trial === undefined || wasLeftOut(trial)) return undefined;
  if (trial.verdict === "pass") return { low: 1, high: 1 };
  if (trial.verdict === "fail") return { low: 0, high: 0 };
  return { low: 0, high: 1 };
}

function rounded(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}

/** A decision in a sentence. */
export function decisionText(decision: Decision): string {
  const { verdict, low, high, rounds, maxRounds } = decision;
  const most = rounds < maxRounds ? "" : ", the most that were allowed,";
  const undecided = `After ${countOf(rounds, "round")}${most} it is undecided`;
  const decided = `Decided after ${rounds} of at most ${countOf(maxRounds, "round")}; that holds in 95 % of all runs, however often one looks.`;
  if (decision.kind === "threshold") {
    const { threshold, value, variant } = decision;
    const wanted = `the threshold ${threshold} ${percentText(value)}`;
    const range = `the pass rate${variant === undefined ? "" : ` of ${variant}`} on these tasks is between ${percentText(low)} and ${percentText(high)}`;
    if (verdict === "undecided") return `${undecided} whether ${wanted} is met: ${range}.`;
    return `The${wanted.slice(3)} is ${verdict}: ${range}. ${decided}`;
  }
  const { first, second, margin = 0 } = decision;
  const difference = `the difference of their pass rates is between ${signedPoints(low)} and ${signedPoints(high)} points`;
  if (verdict === "undecided")
    return `${undecided} whether ${second} is better or worse than ${first} on these tasks: ${difference}.`;
  if (verdict === "equivalent")
    return `On these tasks ${second} is as good as ${first}: ${difference}, which is less than the margin of ${pointsText(margin)}. ${decided}`;
  return `On these tasks ${second} is ${verdict} than ${first}: ${difference}. ${decided}`;
}
