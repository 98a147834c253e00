import { spawn } from "node:child_process";
import { once } from "node:events";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createRecorder } from "../src/trace/recorder.ts";
import { createRedactor } from "../src/trace/redact.ts";
import { createGateway } from "../src/servers/gateway/gateway.ts";
import { openHttpHost } from "../src/servers/http/http-host.ts";
import { openBenchJournal } from "./journal.ts";
import { median, type Row } from "./measure.ts";

const calls = 2000;
const warmUp = 200;
const program = fileURLToPath(new URL("../test/fixtures/servers/conforming-server.ts", import.meta.url));

/** One call over HTTP through the gateway (recorded, journalled) against the same call direct, in turn. */
export async function gatewayLatency(): Promise<readonly Row[]> {
  const child = spawn(process.execPath, [program, "http"], { stdio: ["ignore", "pipe", "inherit"] });
  const [port] = (await once(child.stdout, "data")) as [Buffer];
  const url = `http://127.0.0.1:${port.toString().trim()}/mcp`;
  const journal = openBenchJournal();
  const emit = createRecorder("t1", {
    redact: createRedactor([{ name: "KEY", value: "a-secret-of-the-bench" }]),
    now: () => performance.timeOrigin + performance.now(),
    onBroken: (error) => {
      throw error;
    },
    events: [],
    onEvent: (event, json) => journal.append(event, json),
  });
  const spec = {
    transport: "shttp",
    url,
    headers: {},
    startupTimeoutMs: 30_000,
    maxMessageBytes: 10_485_760,
  } as const;
  const host = await openHttpHost("s", spec);
  const gateway = createGateway();
  try {
    const endpoint = await gateway.open({ host, emit, filters: () => [] });
    const [direct, through] = [await connect(url), await connect(endpoint.url)];
    const pairs: [number, number][] = [];
    for (let index = 0; index < warmUp + calls; index++) {
      // Who is first changes, so that neither has the warmer cache.
      const first = await time(index % 2 === 0 ? direct : through);
      const second = await time(index % 2 === 0 ? through : direct);
      if (index >= warmUp) pairs.push(index % 2 === 0 ? [first, second] : [second, first]);
    }
    await Promise.all([direct.close(), through.close()]);
    return [row(pairs)];
  } finally {
    await gateway.close();
    await host.stop();
    await journal.close();
    child.kill();
  }
}

function row(pairs: readonly (readonly [number, number])[]): Row {
  const floor = median(pairs.map(([direct]) => direct));
  const p50 = median(pairs.map(([direct, through]) => through - direct));
  // Of each by itself: the difference of a pair has the outliers of both.
  const p95 = slowest(pairs.map(([, through]) => through)) - slowest(pairs.map(([direct]) => direct));
  return {
    name: "a call over HTTP, through the gateway",
    measured: `${p50.toFixed(2)} ms more (p50), ${p95.toFixed(2)} ms (p95)`,
    floor: `the same call direct ${floor.toFixed(2)} ms`,
    target: "under 1 ms (p50), 5 ms (p95)",
    holds: p50 < 1 && p95 < 5,
  };
}

/** The 95th percentile. */
function slowest(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.95)] ?? Number.NaN;
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ name: "bench", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

async function time(client: Client): Promise<number> {
  const started = performance.now();
  await client.callTool({ name: "test_simple_text", arguments: {} });
  return performance.now() - started;
}
