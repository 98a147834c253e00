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
import { inTurn, type Row } from "./measure.ts";

const calls = 1000;
const server = resolve(
  import.meta.dirname,
  "../node_modules/@modelcontextprotocol/server-everything/dist/index.js",
);
const args = { message: "hello" };

/** Sequential echo calls through a recorded session (redacted, journalled) against the bare SDK client. */
export async function callThroughput(): Promise<readonly Row[]> {
  await using recorded = await startRecorded();
  await using bare = await startBare();
  const { ours, floor, ratio } = await inTurn(
    15,
    () => callsPerSecond(recorded.call),
    () => callsPerSecond(bare.call),
  );
  return [
    {
      name: "1,000 echo calls, recorded",
      measured: `${ours.toFixed(0)} calls/s (${(ratio * 100).toFixed(1)} %)`,
      floor: `bare SDK client ${floor.toFixed(0)} calls/s`,
      target: "at least 90 %",
      holds: ratio >= 0.9,
    },
  ];
}

async function callsPerSecond(call: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  for (let index = 0; index < calls; index++) await call();
  return (calls * 1000) / (performance.now() - started);
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
