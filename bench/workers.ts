import { once } from "node:events";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { readTrials } from "../src/store/journal.ts";
import { folderOf, startCli } from "../test/support/cli.ts";
import { type PostgresServer, startPostgres } from "../test/support/postgres.ts";
import type { Row } from "./measure.ts";

const manyTrials = 100_000;
const sequential = 500;
const latencyMs = 2000;
/** Of each worker in the measurement of speed: so many trials at once, so many times. */
const atOnce = 4;
const rounds = 20;

/** Runs by `mcpvals worker` processes and a PostgreSQL on this machine. */
export async function workers(): Promise<readonly Row[]> {
  await using postgres = await startPostgres({ fsync: "on" });
  return [await addedTime(postgres), await speedUp(postgres), await noOpTrials(postgres)];
}

/** How much longer than here a trial takes that goes through the queue, one after the other. */
async function addedTime(postgres: PostgresServer): Promise<Row> {
  const files = noOpFiles(1);
  const { durationMs: here } = await measured(files, ["-n", `${sequential}`, "-j", "1"]);
  const { durationMs: there } = await byWorkers(postgres, files, ["-n", `${sequential}`], {
    workers: 1,
    atOnce: 1,
  });
  const added = (there - here) / sequential;
  return {
    name: `time that the queue adds to a trial, ${sequential} no-op trials one by one`,
    measured: `${added.toFixed(1)} ms`,
    floor: `without the queue ${(here / sequential).toFixed(2)} ms`,
    target: "under 20 ms",
    holds: added < 20,
  };
}

/** Trials per second of eight workers and of one, each of which has the same number of trials of a model that takes a fixed time. */
async function speedUp(postgres: PostgresServer): Promise<Row> {
  const model = new Worker(new URL("./fixed-model.mjs", import.meta.url), { workerData: { latencyMs } });
  const [port] = (await once(model, "message")) as [number];
  try {
    const files = {
      "mcp-eval.config.json": {
        agent: { type: "model", model: "fixed", baseURL: `http://127.0.0.1:${port}/v1`, maxSteps: 1 },
        tasks: ["answer.json"],
      },
      "answer.json": task("answer"),
    };
    const perSecond = async (count: number): Promise<number> => {
      const trials = count * atOnce * rounds;
      const { durationMs } = await byWorkers(postgres, files, ["-n", `${trials}`], {
        workers: count,
        atOnce,
      });
      return (trials / durationMs) * 1000;
    };
    const one = await perSecond(1);
    const eight = await perSecond(8);
    return {
      name: `8 workers, ${atOnce} trials of a ${latencyMs} ms model at once, ${rounds} times`,
      measured: `${(eight / one).toFixed(2)} × (${eight.toFixed(1)} trials/s)`,
      floor: `1 worker ${one.toFixed(2)} trials/s`,
      target: "at least 7.6 ×",
      holds: eight / one >= 7.6,
    };
  } finally {
    await model.terminate();
  }
}

/** Trials that do nothing, as many as two workers and who follows the run get through. */
async function noOpTrials(postgres: PostgresServer): Promise<Row> {
  const tasks = 10;
  const { elapsedMs } = await byWorkers(postgres, noOpFiles(tasks), ["-n", `${manyTrials / tasks}`], {
    workers: 2,
    atOnce: 16,
  });
  return {
    name: `${manyTrials} no-op trials by 2 workers`,
    measured: `${(elapsedMs / 1000).toFixed(0)} s (${((manyTrials / elapsedMs) * 1000).toFixed(0)} trials/s)`,
    floor: "-",
    target: "under 300 s",
    holds: elapsedMs < 300_000,
  };
}

function noOpFiles(tasks: number): Readonly<Record<string, unknown>> {
  const names = Array.from({ length: tasks }, (_, index) => `nothing-${index}`);
  const plan = Object.fromEntries(names.map((name) => [name, [{ say: "done" }]]));
  return {
    "mcp-eval.config.json": {
      agent: { type: "scripted", plan },
      tasks: names.map((name) => `${name}.json`),
    },
    ...Object.fromEntries(names.map((name) => [`${name}.json`, task(name)])),
  };
}

/** A task without a server, which any answer solves. */
function task(name: string): unknown {
  return {
    apiVersion: "mcp-eval/v1",
    kind: "Task",
    metadata: { name },
    spec: { prompt: "Say: done.", verify: [{ file: { path: "absent", expect: { exists: false } } }] },
  };
}

interface Measured {
  /** Of the whole command. */
  readonly elapsedMs: number;
  /** From the start of the first trial to the end of the last one. */
  readonly durationMs: number;
}

async function byWorkers(
  postgres: PostgresServer,
  files: Readonly<Record<string, unknown>>,
  args: readonly string[],
  { workers: count, atOnce: concurrency }: { readonly workers: number; readonly atOnce: number },
): Promise<Measured> {
  const url = await postgres.createDatabase(`bench${performance.now().toFixed(0)}`);
  const places = Array.from({ length: count }, () => folderOf({}));
  const started = places.map(({ path }) => startCli(["worker", url, "-j", `${concurrency}`], { cwd: path }));
  try {
    await Promise.all(started.map((worker) => worker.until(/takes trials from/)));
    // So that every worker has loaded what it needs: all of them share the cores of one machine.
    await measured(files, ["-n", `${count * concurrency * 2}`, "--backend", url]);
    return await measured(files, [...args, "--backend", url]);
  } finally {
    for (const { child } of started) child.kill("SIGTERM");
    await Promise.all(started.map(({ finished }) => finished));
    for (const place of places) place[Symbol.dispose]();
  }
}

async function measured(
  files: Readonly<Record<string, unknown>>,
  args: readonly string[],
): Promise<Measured> {
  using here = folderOf(files);
  const {
    code,
    stderr,
    durationMs: elapsedMs,
  } = await startCli(["run", "-q", ...args], { cwd: here.path }).finished;
  if (code !== 0) throw new Error(`the run ended with ${code}: ${stderr}`);
  const runs = join(here.path, ".mcpvals/runs");
  const folder = join(runs, readdirSync(runs)[0] ?? "");
  let first = Infinity;
  let last = 0;
  for await (const { events } of readTrials(folder)) {
    first = Math.min(first, events[0]?.event.at ?? Infinity);
    last = Math.max(last, events.at(-1)?.event.at ?? 0);
  }
  return { elapsedMs, durationMs: last - first };
}
