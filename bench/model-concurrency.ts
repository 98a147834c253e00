import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Eval } from "../src/model/eval.ts";
import { type RunInput, run } from "../src/run/run.ts";
import type { Row } from "./measure.ts";

const trials = 32;
const concurrency = 16;
const latencyMs = 2000;

/** Trials of a model that takes a fixed time, several at once, against the ideal of perfectly filled slots. */
export async function modelConcurrency(): Promise<readonly Row[]> {
  const worker = new Worker(new URL("./fixed-model.mjs", import.meta.url), { workerData: { latencyMs } });
  const [port] = (await once(worker, "message")) as [number];
  try {
    const loaded: RunInput = {
      eval: modelEval(`http://127.0.0.1:${port}/v1`),
      secrets: [],
      env: {},
      overrides: {},
      dir: import.meta.dirname,
      extensionUses: new Map(),
    };
    await run({ ...loaded, eval: { ...loaded.eval, trials: concurrency } }, { cwd: ".", output: false });
    const { result } = await run(loaded, { cwd: ".", output: false });
    if (result.verdict !== "pass") throw new Error(`the bench's own run ended with ${result.verdict}`);
    const ideal = (trials / concurrency) * latencyMs;
    const ratio = result.durationMs / ideal;
    return [
      {
        name: `${trials} trials of a ${latencyMs} ms model, ${concurrency} at once`,
        measured: `${result.durationMs} ms (+${((ratio - 1) * 100).toFixed(1)} %)`,
        floor: `ideal ${ideal} ms`,
        target: "within 3 %",
        holds: ratio <= 1.03,
      },
    ];
  } finally {
    await worker.terminate();
  }
}

function modelEval(baseURL: string): Eval {
  return {
    name: "model",
    servers: {},
    agents: [{ type: "model", name: "fixed", model: "fixed", baseURL, maxSteps: 1 }],
    tasks: [
      {
        name: "answer",
        form: "workflow",
        servers: [],
        turns: [{ user: "Work.", expectedState: "done" }],
        expectTools: [],
        verify: [],
        parallel: false,
      },
    ],
    trials,
    concurrency,
    limits: { trialMs: 60_000, callMs: 1000, modelMs: 30_000 },
    reporters: [],
  };
}
