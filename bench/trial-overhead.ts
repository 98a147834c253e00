import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import type { Eval } from "../src/model/eval.ts";
import { run } from "../src/run/run.ts";
import { median, type Row } from "./measure.ts";

/** Numbers of trials, and how many runs of each are timed: a short run is disturbed more. */
const sizes = [
  { size: 1000, runs: 9 },
  { size: 10_000, runs: 3 },
  { size: 100_000, runs: 1 },
] as const;

/** Trials with an agent that does nothing and no server: what the harness itself costs in time. */
export async function trialOverhead(): Promise<readonly Row[]> {
  await timeTrials(1000);
  const times: { readonly size: number; readonly perTrial: number }[] = [];
  for (const { size, runs } of sizes) {
    const perTrial: number[] = [];
    for (let index = 0; index < runs; index += 1) perTrial.push((await timeTrials(size)) / size);
    times.push({ size, perTrial: median(perTrial) });
  }
  const smallest = times[0]?.perTrial ?? 0;
  const largest = times.at(-1)?.perTrial ?? 0;
  return [
    {
      name: "a trial, no-op agent, no server",
      measured: times.map(({ size, perTrial }) => `${size}: ${perTrial.toFixed(3)} ms`).join(", "),
      floor: "-",
      target: "under 0.3 ms, linear to 100,000",
      holds: times.every(({ perTrial }) => perTrial < 0.3) && largest <= smallest * 1.5,
    },
  ];
}

/** Milliseconds that so many trials take, journal and result included. */
export async function timeTrials(size: number): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  try {
    const started = performance.now();
    const { result } = await runTrials(size, folder);
    const elapsed = performance.now() - started;
    if (result.summary.total !== size) throw new Error(`ran ${result.summary.total} of ${size} trials`);
    return elapsed;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs so many trials of so many tasks, with the folder of runs in `cwd`. */
export function runTrials(size: number, cwd: string, tasks = 1): ReturnType<typeof run> {
  return run(
    {
      eval: noOpEval(size, tasks),
      secrets: [],
      env: {},
      overrides: {},
      dir: import.meta.dirname,
      extensionUses: new Map(),
    },
    { cwd },
  );
}

function noOpEval(size: number, tasks: number): Eval {
  const names = Array.from({ length: tasks }, (_, index) => `nothing ${index}`);
  return {
    name: "no-op",
    servers: {},
    agents: [
      {
        type: "scripted",
        name: "nobody",
        plan: Object.fromEntries(names.map((name) => [name, [{ say: "done" }]])),
      },
    ],
    tasks: names.map((name) => ({
      name,
      form: "workflow",
      servers: [],
      turns: [{ user: "Do nothing.", expectedState: "done" }],
      expectTools: [],
      verify: [],
      parallel: false,
    })),
    trials: size / tasks,
    limits: { trialMs: 60_000, callMs: 1000, modelMs: 1000 },
    reporters: [],
  };
}
