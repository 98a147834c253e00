import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import type { Eval } from "../src/core/formats/model.ts";
import { run } from "../src/run.ts";
import type { Row } from "./measure.ts";

const sizes = [1000, 10_000, 100_000] as const;

/** Trials with an agent that does nothing and no server: what the harness itself costs in time and memory. */
export async function trialOverhead(): Promise<readonly Row[]> {
  await timeTrials(1000);
  globalThis.gc?.();
  const before = process.memoryUsage().rss;
  const times: { readonly size: number; readonly perTrial: number }[] = [];
  let peak = before;
  const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 20);
  for (const size of sizes) times.push({ size, perTrial: (await timeTrials(size)) / size });
  clearInterval(watch);
  const smallest = times[0]?.perTrial ?? 0;
  const largest = times.at(-1)?.perTrial ?? 0;
  const memory = (peak - before) / 1024 / 1024;
  return [
    {
      name: "a trial, no-op agent, no server",
      measured: times.map(({ size, perTrial }) => `${size}: ${perTrial.toFixed(3)} ms`).join(", "),
      floor: "-",
      target: "under 1 ms, linear to 100,000",
      holds: times.every(({ perTrial }) => perTrial < 1) && largest <= smallest * 1.5,
    },
    {
      name: "memory at 100,000 trials",
      measured: `${memory.toFixed(0)} MB over start`,
      floor: "-",
      target: "under 150 MB",
      holds: memory < 150,
    },
  ];
}

async function timeTrials(size: number): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  try {
    const started = performance.now();
    const { result } = await run({ eval: noOpEval(size), secrets: [], env: {} }, { cwd: folder });
    const elapsed = performance.now() - started;
    if (result.summary.total !== size) throw new Error(`ran ${result.summary.total} of ${size} trials`);
    return elapsed;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function noOpEval(trials: number): Eval {
  return {
    name: "no-op",
    servers: {},
    agents: [{ type: "scripted", name: "nobody", plan: { nothing: [{ say: "done" }] } }],
    tasks: [
      {
        name: "nothing",
        form: "workflow",
        servers: [],
        turns: [{ user: "Do nothing.", expectedState: "done" }],
        expectTools: [],
        verify: [],
        parallel: false,
      },
    ],
    trials,
    limits: { trialMs: 60_000, callMs: 1000, modelMs: 1000 },
    reporters: [],
  };
}
