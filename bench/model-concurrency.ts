import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Eval } from "../src/core/formats/model.ts";
import { type RunInput, run } from "../src/run.ts";
import type { Row } from "./measure.ts";

const trials = 48;
const concurrency = 16;
const latencyMs = 1000;

/** Trials of a model that takes a fixed time, several at once, against the ideal of perfectly filled slots. */
export async function modelConcurrency(): Promise<readonly Row[]> {
  const server = createServer((request, response) => {
    request.resume();
    void sleep(latencyMs).then(() => {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((listening) => {
    server.listen(0, "127.0.0.1", listening);
  });
  const { port } = server.address() as AddressInfo;
  try {
    const loaded: RunInput = { eval: modelEval(`http://127.0.0.1:${port}/v1`), secrets: [], env: {} };
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
    server.closeAllConnections();
    server.close();
  }
}

const answer = {
  id: "1",
  object: "chat.completion",
  created: 0,
  model: "fixed",
  choices: [{ index: 0, message: { role: "assistant", content: "done" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

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
        turns: [{ user: "Say done.", expectedState: "done" }],
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
