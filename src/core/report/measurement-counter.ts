import { measure } from "../grade/measurements/measure.ts";
import {
  type Routed,
  routeOf,
  type RoutingConfig,
  triggered,
  type TriggerTest,
} from "../grade/tool-routing.ts";
import { withoutUndefined } from "../formats/json.ts";
import { wilson } from "../statistics/wilson.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import type { Routing, RunMeasurements, TrialResult } from "./result.ts";

/** Tools whose definitions are counted: what a server lists may change without end. */
const mostTools = 10_000;

const sums = [
  "calls",
  "unknownTools",
  "invalidCalls",
  "redundantCalls",
  "errors",
  "recoveredErrors",
  "identicalRetries",
] as const;

/** Adds up the measurements of the trials of a run. */
export class MeasurementCounter {
  readonly #sums = Object.fromEntries(sums.map((name) => [name, 0])) as Record<(typeof sums)[number], number>;
  readonly #causes = new Map<string, number>();
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
    for (const [cause, number] of Object.entries(row.invalidCauses))
      this.#causes.set(cause, (this.#causes.get(cause) ?? 0) + number);
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
      invalidCauses: Object.fromEntries(this.#causes),
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

/** Different cells of a matrix that are counted: a model may call tools by names without end. */
const mostCells = 10_000;

type Matrix = NonNullable<Routing["tools"]>;

/** Where a prompt led, by what the matrix counts. */
type Led = Partial<Record<"tools" | "servers" | "skills", Routed>> & { readonly later?: unknown };

/** Counts where the prompts of a run led, and where they should have. */
export class RoutingCounter {
  readonly #tools = new Cells();
  readonly #servers = new Cells();
  readonly #skills = new Cells();
  #nearMisses = 0;

  add(trajectory: Trajectory, { grades }: Pick<TrialResult, "grades">): void {
    for (const { type, name, config } of trajectory.task.graders ?? []) {
      if (type !== "tool_routing" && type !== "trigger") continue;
      const grade = grades.find(({ grader }) => grader === name);
      if (grade?.verdict !== "pass" && grade?.verdict !== "fail") continue;
      // The settings in a plan fit the schema of their type.
      const { tools, servers, skills, later }: Led =
        type === "trigger"
          ? triggered(config as unknown as TriggerTest, grade)
          : routeOf(config as unknown as RoutingConfig, trajectory);
      if (tools !== undefined) this.#tools.add(tools);
      if (servers !== undefined) this.#servers.add(servers);
      if (skills !== undefined) this.#skills.add(skills);
      if (later !== undefined) this.#nearMisses += 1;
    }
  }

  /** Undefined when nothing was counted. */
  result(): Routing | undefined {
    const found = withoutUndefined({
      tools: this.#tools.result(),
      servers: this.#servers.result(),
      skills: this.#skills.result(),
    });
    return Object.keys(found).length === 0 ? undefined : { nearMisses: this.#nearMisses, ...found };
  }
}

class Cells {
  readonly #cells = new Map<string, Routed & { trials: number }>();

  add({ expected, called }: Routed): void {
    const key = JSON.stringify([expected, called]);
    const cell = this.#cells.get(key);
    if (cell !== undefined) cell.trials += 1;
    else if (this.#cells.size < mostCells) this.#cells.set(key, { expected, called, trials: 1 });
  }

  result(): Matrix | undefined {
    const matrix = [...this.#cells.values()];
    const all = countOf(matrix);
    const correct = matrix.filter(({ expected, called }) => expected === called);
    if (all === 0) return undefined;
    const shares = (by: "expected" | "called"): Matrix["recall"] => {
      const hits = new Map(correct.map((cell) => [cell[by], cell.trials]));
      const groups = [...Map.groupBy(matrix, (cell) => cell[by])];
      return Object.fromEntries(
        groups.map(([name, cells]) => [name, shareOf(hits.get(name) ?? 0, countOf(cells))]),
      );
    };
    return {
      correct: shareOf(countOf(correct), all),
      matrix,
      precision: shares("called"),
      recall: shares("expected"),
    };
  }
}

function countOf(cells: readonly { readonly trials: number }[]): number {
  return cells.reduce((sum, { trials }) => sum + trials, 0);
}

function shareOf(part: number, trials: number): Matrix["correct"] {
  return { ...(wilson(part, trials) ?? { value: 0, low: 0, high: 1 }), trials };
}
