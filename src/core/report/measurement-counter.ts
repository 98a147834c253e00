import { measure } from "../grade/measurements/measure.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import type { RunMeasurements, TrialResult } from "./result.ts";

/** Tools whose definitions are counted: what a server lists may change without end. */
const mostTools = 10_000;

const sums = [
  "calls",
  "unknownTools",
  "redundantCalls",
  "errors",
  "recoveredErrors",
  "identicalRetries",
] as const;

/** Adds up the measurements of the trials of a run. */
export class MeasurementCounter {
  readonly #sums = Object.fromEntries(sums.map((name) => [name, 0])) as Record<(typeof sums)[number], number>;
  #trials = 0;
  #passed = 0;
  #unsupportedClaims = 0;
  #ignoredErrors = 0;
  /** Tokens of definitions that models read with all of their requests. */
  #read = 0;
  /** By server and tool. */
  readonly #tools = new Map<string, Map<string, { tokens: number; isCalled: boolean }>>();
  #size = 0;

  add(trajectory: Trajectory, { verdict }: Pick<TrialResult, "verdict">): void {
    const found = measure(trajectory);
    if (found === undefined) return;
    const { row, definitions } = found;
    for (const name of sums) this.#sums[name] += row[name];
    this.#trials += 1;
    if (verdict === "pass") this.#passed += 1;
    if (row.unsupportedClaims.length > 0) this.#unsupportedClaims += 1;
    if (row.ignoredErrors.length > 0) this.#ignoredErrors += 1;
    this.#read += row.definitionTokens * (trajectory.usage?.requests ?? 1);
    for (const { server, tool, tokens, isCalled } of definitions) {
      const tools = this.#tools.get(server) ?? new Map<string, { tokens: number; isCalled: boolean }>();
      this.#tools.set(server, tools);
      const known = tools.get(tool);
      if (known !== undefined) Object.assign(known, { tokens, isCalled: known.isCalled || isCalled });
      else if (this.#size < mostTools) {
        tools.set(tool, { tokens, isCalled });
        this.#size += 1;
      }
    }
  }

  /** Undefined when no trial was measured. */
  result(): RunMeasurements | undefined {
    if (this.#trials === 0) return undefined;
    const all = [...this.#tools.values()].flatMap((tools) => [...tools.values()]);
    const tokensOf = (tools: typeof all): number => tools.reduce((sum, { tokens }) => sum + tokens, 0);
    const byServer = [...this.#tools].map(([server, tools]) => {
      return [server, Object.fromEntries([...tools].map(([tool, { tokens }]) => [tool, tokens]))] as const;
    });
    return {
      ...this.#sums,
      trials: this.#trials,
      unsupportedClaims: this.#unsupportedClaims,
      ignoredErrors: this.#ignoredErrors,
      definitions: {
        tokens: tokensOf(all),
        unused: tokensOf(all.filter(({ isCalled }) => !isCalled)),
        perPassedTrial: this.#passed === 0 ? null : Math.round(this.#read / this.#passed),
        tools: Object.fromEntries(byServer),
      },
    };
  }
}
