import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { localBinPath } from "../../src/process/environment.ts";
import { spawnProcess } from "../../src/process/spawn.ts";
import { livingProcesses } from "../process/support.ts";
import { callOptions, httpSpec, startSession, stdioSpec } from "./support.ts";

const command = "mcp-server-everything";

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Starts the server on a free loopback port, and gives its origin when it listens. */
async function listen(transport: "streamableHttp" | "sse"): Promise<string> {
  const port = await freePort();
  const env = { PATH: localBinPath(process.cwd(), process.env["PATH"]), PORT: String(port) };
  const server = await spawnProcess({ command, args: [transport], env, cwd: process.cwd() });
  onTestFinished(async () => {
    await server.stop({ stdinMs: 0 });
  });
  server.stdout.resume();
  const lines = createInterface(server.stderr);
  for await (const line of lines) if (line.includes(`port ${port}`)) break;
  server.stderr.resume();
  return `http://127.0.0.1:${port}`;
}

const echoed = { kind: "result", result: { content: [{ type: "text", text: "Echo: hello" }] } };

describe("the reference server", () => {
  it("over stdio", async () => {
    const { session, record } = await startSession(stdioSpec(command, []));
    expect(session.tools.length).toBeGreaterThanOrEqual(13);
    expect(await session.callTool("echo", { message: "hello" }, callOptions())).toMatchObject(echoed);
    const uri = "demo://resource/static/document/features.md";
    expect(await session.readResource(uri, callOptions())).toMatchObject({
      kind: "result",
      result: { contents: [{ uri, text: expect.stringContaining("Tools") as string }] },
    });
    const args = { city: "Rome", state: "Lazio" };
    expect(await session.getPrompt("args-prompt", args, callOptions())).toEqual({
      kind: "result",
      result: {
        messages: [{ role: "user", content: { type: "text", text: "What's weather in Rome, Lazio?" } }],
      },
      latencyMs: expect.any(Number) as number,
    });
    await session.stop();
    expect(record.of("server.invalid_output")).toEqual([]);
    expect(record.of("server.stopped")).toMatchObject([{ by: "stdin" }]);
    if (process.platform === "linux") expect(await livingProcesses()).toEqual([]);
  });

  it("over Streamable HTTP", async () => {
    const origin = await listen("streamableHttp");
    const { session, record } = await startSession(httpSpec(`${origin}/mcp`));
    expect(session.tools.length).toBeGreaterThanOrEqual(13);
    expect(await session.callTool("echo", { message: "hello" }, callOptions())).toMatchObject(echoed);
    await session.stop();
    expect(record.of("http.response").filter(({ status }) => status >= 400)).toEqual([]);
    expect(record.events.at(-1)).toMatchObject({ type: "server.stopped", by: "disconnect" });
  });

  it("over HTTP+SSE", async () => {
    const origin = await listen("sse");
    const { session, record } = await startSession(httpSpec(`${origin}/sse`, { transport: "sse" }));
    expect(session.tools.length).toBeGreaterThanOrEqual(13);
    expect(await session.callTool("echo", { message: "hello" }, callOptions())).toMatchObject(echoed);
    await session.stop();
    expect(record.of("http.response")[0]).toMatchObject({ method: "GET", status: 200 });
    expect(session.lost.aborted).toBe(false);
  });
});
