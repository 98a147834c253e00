import { resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import type { StdioServerSpec } from "../src/model/server.ts";
import type { TraceEvent } from "../src/model/event.ts";
import { createRecorder } from "../src/trace/recorder.ts";
import { createRedactor } from "../src/trace/redact.ts";
import { startServer } from "../src/servers/server-pool.ts";
import { openBenchJournal } from "./journal.ts";
import type { Row } from "./measure.ts";

/**
 * Calls in a block, and blocks of a pair of servers: short ones, since the speed of a shared machine differs from one second to the
 * next. Several pairs, since two processes of one program differ in speed for as long as they run.
 */
const calls = 100;
const blocks = 40;
const warmUpBlocks = 10;
const pairs = 5;
const server = resolve(
  import.meta.dirname,
  "../node_modules/@modelcontextprotocol/server-everything/dist/index.js",
);
const args = { message: "hello" };

/** Sequential echo calls through a recorded session (redacted, journalled) against the bare SDK client, in blocks in turn. */
export async function callThroughput(): Promise<readonly Row[]> {
  const total = { ours: 0, floor: 0 };
  for (let pair = 0; pair < pairs; pair++) {
    const { ours, floor } = await timePair();
    total.ours += ours;
    total.floor += floor;
  }
  const count = calls * blocks * pairs;
  const perSecond = (ms: number): string => ((count * 1000) / ms).toFixed(0);
  const ratio = total.floor / total.ours;
  return [
    {
      name: `${count} echo calls, recorded`,
      measured: `${perSecond(total.ours)} calls/s (${(ratio * 100).toFixed(1)} %)`,
      floor: `bare SDK client ${perSecond(total.floor)} calls/s`,
      target: "at least 90 %",
      holds: ratio >= 0.9,
    },
  ];
}

/** Milliseconds that all blocks of one pair of servers take. */
async function timePair(): Promise<{ readonly ours: number; readonly floor: number }> {
  await using recorded = await startRecorded();
  await using bare = await startBare();
  let [ours, floor] = [0, 0];
  for (let block = -warmUpBlocks; block < blocks; block++) {
    const [ourTime, floorTime] = [await timeOf(recorded.call), await timeOf(bare.call)];
    if (block < 0) continue;
    ours += ourTime;
    floor += floorTime;
  }
  return { ours, floor };
}

/** Milliseconds that a block of calls takes. */
async function timeOf(call: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  for (let index = 0; index < calls; index++) await call();
  return performance.now() - started;
}

type Caller = AsyncDisposable & { readonly call: () => Promise<unknown> };

async function startRecorded(): Promise<Caller> {
  const journal = openBenchJournal();
  const events: TraceEvent[] = [];
  const emit = createRecorder("t1", {
    redact: createRedactor([{ name: "KEY", value: "a-secret-of-the-bench" }]),
    now: () => performance.timeOrigin + performance.now(),
    onBroken: (error) => {
      throw error;
    },
    events,
    onEvent: (event, json) => journal.append(event, json),
  });
  const spec: StdioServerSpec = {
    transport: "stdio",
    command: process.execPath,
    args: [server],
    env: { PATH: process.env["PATH"] ?? "" },
    cwd: process.cwd(),
    startupTimeoutMs: 30_000,
    maxMessageBytes: 10_485_760,
  };
  const signal = new AbortController().signal;
  const session = await startServer("everything", spec, { emit, signal, version: "bench" });
  return {
    call: () => session.callTool("echo", args, { timeoutMs: 30_000, signal }),
    async [Symbol.asyncDispose]() {
      await session.stop();
      await journal.close();
    },
  };
}

async function startBare(): Promise<Caller> {
  const client = new Client({ name: "bare", version: "1.0.0" });
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args: [server], stderr: "ignore" }),
  );
  return {
    call: () => client.callTool({ name: "echo", arguments: args }),
    [Symbol.asyncDispose]: () => client.close(),
  };
}
