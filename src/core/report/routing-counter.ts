import { type Routed, type RoutingConfig, routeOf } from "../grade/measurements/route.ts";
import { wilson } from "../statistics/wilson.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import type { Routing, TrialResult } from "./result.ts";

/** Different cells of a matrix that are counted: a model may call tools by names without end. */
const mostCells = 10_000;

type Matrix = NonNullable<Routing["tools"]>;

/** Counts where the prompts of a run led, and where they should have. */
export class RoutingCounter {
  readonly #tools = new Cells();
  readonly #servers = new Cells();
  #nearMisses = 0;

  add(trajectory: Trajectory, { grades }: Pick<TrialResult, "grades">): void {
    for (const { type, name, config } of trajectory.task.graders ?? []) {
      const verdict = type === "tool_routing" && grades.find(({ grader }) => grader === name)?.verdict;
      if (verdict !== "pass" && verdict !== "fail") continue;
      // The settings in a plan fit the schema of their type.
      const { tools, servers, later } = routeOf(config as unknown as RoutingConfig, trajectory);
      if (tools !== undefined) this.#tools.add(tools);
      if (servers !== undefined) this.#servers.add(servers);
      if (later !== undefined) this.#nearMisses += 1;
    }
  }

  /** Undefined when nothing was counted. */
  result(): Routing | undefined {
    const [tools, servers] = [this.#tools.result(), this.#servers.result()];
    if (tools === undefined && servers === undefined) return undefined;
    return {
      nearMisses: this.#nearMisses,
      ...(tools === undefined ? {} : { tools }),
      ...(servers === undefined ? {} : { servers }),
    };
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
