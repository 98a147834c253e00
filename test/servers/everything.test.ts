import { describe, expect, it } from "vitest";
import { listenEverything } from "../gateway/listen.ts";
import { livingProcesses } from "../process/support.ts";
import { callOptions, httpSpec, startSession, stdioSpec } from "./support.ts";

const echoed = { kind: "result", result: { content: [{ type: "text", text: "Echo: hello" }] } };

describe("the reference server", () => {
  it("over stdio", async () => {
    const { session, record } = await startSession(stdioSpec("mcp-server-everything", []));
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
    const origin = await listenEverything("streamableHttp");
    const { session, record } = await startSession(httpSpec(`${origin}/mcp`));
    expect(session.tools.length).toBeGreaterThanOrEqual(13);
    expect(await session.callTool("echo", { message: "hello" }, callOptions())).toMatchObject(echoed);
    await session.stop();
    expect(record.of("http.response").filter(({ status }) => status >= 400)).toEqual([]);
    expect(record.events.at(-1)).toMatchObject({ type: "server.stopped", by: "disconnect" });
  });

  it("over HTTP+SSE", async () => {
    const origin = await listenEverything("sse");
    const { session, record } = await startSession(httpSpec(`${origin}/sse`, { transport: "sse" }));
    expect(session.tools.length).toBeGreaterThanOrEqual(13);
    expect(await session.callTool("echo", { message: "hello" }, callOptions())).toMatchObject(echoed);
    await session.stop();
    expect(record.of("http.response")[0]).toMatchObject({ method: "GET", status: 200 });
    expect(session.lost.aborted).toBe(false);
  });
});
