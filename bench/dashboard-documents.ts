import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDashboard } from "../src/dashboard/handler.ts";
import { evaluate } from "../src/index.ts";
import type { Row } from "./measure.ts";
import { runTrials } from "./trial-overhead.ts";

const trials = 100_000;
/** Each is two messages. */
const calls = 10_000;
/** Of a trial made by {@link longTrial}. */
export const longTrialEvents = 2 * calls;

/** How long the server of the dashboard takes for a large run, for a trial of it, and for a long trial, each asked for the first time. */
export async function dashboardDocuments(): Promise<readonly Row[]> {
  const cwd = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  const runs = join(cwd, ".mcpvals", "runs");
  try {
    const { id } = (await runTrials(trials, cwd)).result;
    const long = await evaluate(longTrial(), { output: runs });
    await using dashboard = createDashboard({ runs, cwd, access: async () => undefined });
    const row = async (name: string, path: string, most: number): Promise<Row> => {
      const [started, usedBefore] = [performance.now(), process.cpuUsage()];
      const response = await dashboard.fetch(new Request(`http://127.0.0.1/api/runs/${path}`));
      const { length } = await response.text();
      const elapsed = performance.now() - started;
      const { user, system } = process.cpuUsage(usedBefore);
      if (response.status !== 200) throw new Error(`${path}: ${response.status}`);
      const processor = Math.round((user + system) / 1000);
      const measured = `${Math.round(elapsed)} ms (processor ${processor} ms), ${(length / 1024 / 1024).toFixed(1)} MiB`;
      return { name, measured, floor: "-", target: `under ${most} ms`, holds: elapsed < most };
    };
    return [
      await row(`document of ${trials} trials`, id, 2000),
      await row("document of one of them", `${id}/trials/t${trials / 2}`, 1000),
      await row(`document of a trial of ${longTrialEvents} events`, `${long.id}/trials/t1`, 2000),
    ];
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}

/** A config with an agent that calls a mock again and again. */
export function longTrial(): Parameters<typeof evaluate>[0] {
  const visits = Array.from({ length: calls }, (_, n) => ({ call: "visit", args: { n } }));
  return {
    server: { transport: "mock", mock: { tools: { visit: { responses: [{ return: "seen" }] } } } },
    agent: { type: "scripted", plan: { go: [...visits, { say: "done" }] } },
    workflows: [{ name: "go", steps: [{ user: "go", expectedState: "done" }] }],
  };
}
