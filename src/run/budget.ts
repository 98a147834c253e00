import { countOf } from "../base/visible-text.ts";
import type { Budget } from "../model/eval.ts";
import type { TrialResult } from "../model/result.ts";
import { costOf, wholeCost } from "../report/rates.ts";
import { moneyText } from "../report/text.ts";
import { formatDuration } from "../base/duration.ts";

type Spent = Pick<TrialResult, "id" | "form" | "usage" | "judgeUsage" | "userUsage" | "ran" | "tools">;

/** What the trials of a run have used of its budget. */
export class Spending {
  readonly #budget: Budget;
  readonly #currency: string;
  readonly #elapsedMs: () => number;
  #cost = 0;
  #tokens = 0;
  #calls = 0;
  #usedUp: string | undefined;
  #isUnknown = false;

  /** Costs are in `currency`; `elapsedMs` says how long the run has taken. */
  constructor(
    budget: Budget,
    {
      currency = "USD",
      elapsedMs,
    }: { readonly currency?: string | undefined; readonly elapsedMs: () => number },
  ) {
    this.#budget = budget;
    this.#currency = currency;
    this.#elapsedMs = elapsedMs;
  }

  /** Adds a trial that has ended. */
  add(trial: Spent): void {
    const { id, form, usage, ran, tools } = trial;
    const used = [usage, trial.judgeUsage, trial.userUsage].filter((each) => each !== undefined);
    const cost = costOf([trial]);
    const amount = cost === undefined || cost.currency === this.#currency ? wholeCost(cost) : undefined;
    if (amount !== undefined) this.#cost += amount;
    else if (this.#budget.cost !== undefined)
      this.#endUnknown(`what the trial ${id} cost`, this.#money(this.#budget.cost));
    for (const { inputTokens, outputTokens } of used) this.#tokens += inputTokens + outputTokens;
    const isUnknown =
      (ran !== undefined && usage === undefined) || used.some(({ isPartial }) => isPartial === true);
    if (this.#budget.tokens !== undefined && isUnknown)
      this.#endUnknown(`how many tokens the trial ${id} used`, countOf(this.#budget.tokens, "token"));
    this.#calls += (tools?.toolCalls ?? 0) + (form === "tool-test" ? 1 : 0);
  }

  /** Why no further trial is to begin: a budget is used up, or nobody knows. Once there is a reason it stays. */
  get usedUp(): string | undefined {
    const { cost = Infinity, tokens = Infinity, calls = Infinity, timeMs = Infinity } = this.#budget;
    const elapsedMs = this.#elapsedMs();
    if (this.#cost >= cost) this.#usedUp ??= usedUp(this.#money(cost), this.#money(this.#cost));
    if (this.#tokens >= tokens)
      this.#usedUp ??= usedUp(countOf(tokens, "token"), countOf(this.#tokens, "token"));
    if (this.#calls >= calls) this.#usedUp ??= usedUp(countOf(calls, "call"), countOf(this.#calls, "call"));
    if (elapsedMs >= timeMs) this.#usedUp ??= usedUp(formatDuration(timeMs), formatDuration(elapsedMs));
    return this.#usedUp;
  }

  /** Of {@link usedUp}: whether nobody knows, so that a larger budget would not help. */
  get isUnknown(): boolean {
    return this.#isUnknown;
  }

  #endUnknown(what: string, budget: string): void {
    if (this.#usedUp !== undefined) return;
    this.#isUnknown = true;
    this.#usedUp = `it is unknown ${what}, so the budget of ${budget} cannot be kept`;
  }

  #money(amount: number): string {
    return moneyText(amount, this.#currency);
  }
}

function usedUp(budget: string, used: string): string {
  return `the budget of ${budget} is used up${used === budget ? "" : `: ${used}`}`;
}
