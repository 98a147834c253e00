import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { localBinPath } from "../../src/process/environment.ts";
import { spawnProcess } from "../../src/process/spawn.ts";
import { everythingMain } from "./support.ts";

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Starts the reference server on a free loopback port, and gives its origin when it listens. */
export async function listenEverything(transport: "streamableHttp" | "sse"): Promise<string> {
  const port = await freePort();
  const env = { PATH: localBinPath(process.cwd(), process.env["PATH"]), PORT: String(port) };
  const command = process.execPath;
  const server = await spawnProcess({ command, args: [everythingMain, transport], env, cwd: process.cwd() });
  onTestFinished(async () => {
    await server.stop({ stdinMs: 0 });
  });
  server.stdout.resume();
  const lines = createInterface(server.stderr);
  for await (const line of lines) if (line.includes(`port ${port}`)) break;
  server.stderr.resume();
  return `http://127.0.0.1:${port}`;
}
