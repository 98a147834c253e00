import { expect, it } from "vitest";
import type { ServerSpec } from "../../src/model/server.ts";
import { listenEverything } from "../gateway/support.ts";
import { everythingServer } from "../support/programs.ts";
import { callOptions, httpSpec, startSession, stdioSpec } from "./support.ts";

const overSse = async (): Promise<ServerSpec> =>
  httpSpec(`${await listenEverything("sse")}/sse`, { transport: "sse" });

it.each<[string, () => ServerSpec | Promise<ServerSpec>]>([
  ["stdio", () => stdioSpec(process.execPath, [everythingServer])],
  ["Streamable HTTP", async () => httpSpec(`${await listenEverything("streamableHttp")}/mcp`)],
  ["HTTP+SSE", overSse],
])("reaches the reference server over %s", async (_, spec) => {
  const { session, record } = await startSession(await spec());
  expect(session.tools.length).toBeGreaterThanOrEqual(13);
  expect(await session.callTool("echo", { message: "hello" }, callOptions())).toMatchObject({
    result: { content: [{ text: "Echo: hello" }] },
  });
  const uri = "demo://resource/static/document/features.md";
  expect(await session.readResource(uri, callOptions())).toMatchObject({ result: { contents: [{ uri }] } });
  expect(await session.getPrompt("args-prompt", { city: "Rome" }, callOptions())).toMatchObject({
    result: { messages: [{ content: { text: "What's weather in Rome?" } }] },
  });
  await session.stop();
  expect(record.of("http.response").filter(({ status }) => status >= 400)).toEqual([]);
  expect(session.lost.aborted).toBe(false);
});
