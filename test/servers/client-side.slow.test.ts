import { describe, expect, it, onTestFinished, test } from "vitest";
import type { JsonObject } from "../../src/base/json.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import { startServer } from "../../src/servers/server-pool.ts";
import type { CallOutcome, ClientSide, ServerSession } from "../../src/servers/client/session.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { startAskingServer } from "../fixtures/servers/asking-server.ts";
import { callOptions, createRecord, failToStart, httpSpec, type Record, stdioSpec } from "./support.ts";
import { askingServer } from "../support/programs.ts";

async function overHttp(
  legacy: "stateless" | "reject",
  changes: Partial<ServerSpec> = {},
): Promise<ServerSpec> {
  const server = await startAskingServer(legacy);
  onTestFinished(() => server.close());
  return { ...httpSpec(server.url), ...changes } as ServerSpec;
}

function overStdio(eras: string, changes: Partial<ServerSpec> = {}): Promise<ServerSpec> {
  return Promise.resolve({ ...stdioSpec(process.execPath, [askingServer, eras]), ...changes } as ServerSpec);
}

async function start(
  spec: ServerSpec,
  clientSide?: ClientSide,
): Promise<{ readonly session: ServerSession; readonly record: Record }> {
  const record = createRecord();
  const { signal } = new AbortController();
  const session = await startServer("asking", spec, {
    emit: record.emit,
    signal,
    version: "9.9.9",
    ...(clientSide === undefined ? {} : { clientSide }),
  });
  onTestFinished(() => session.stop());
  return { session, record };
}

function textOf(outcome: CallOutcome): string {
  if (outcome.kind !== "result") throw new Error(JSON.stringify(outcome));
  const [first] = outcome.result["content"] as readonly { readonly text: string }[];
  return first?.text ?? "";
}

const answers: Required<ClientSide> = {
  sampling: (params) =>
    Promise.resolve({
      role: "assistant",
      content: { type: "text", text: `asked for ${JSON.stringify(params["maxTokens"])} tokens` },
      model: "fake",
      stopReason: "endTurn",
    }),
  elicitation: (params, { server }) => ({
    action: "accept",
    content: { colour: `${server}: ${JSON.stringify(params["message"])}` },
  }),
  roots: [{ uri: "file:///a/folder", name: "here" }],
};

/** Whether a call has failed, with an error or as the tool says. */
const hasFailed = (outcome: CallOutcome): boolean =>
  outcome.kind === "error" || (outcome.kind === "result" && outcome.result["isError"] === true);

describe.each([
  ["2025-11-25", "stdio", () => overStdio("legacy")],
  ["2026-07-28", "stdio", () => overStdio("both", { protocol: "modern" })],
  ["2026-07-28", "HTTP", () => overHttp("stateless", { protocol: "modern" })],
] as const)("%s over %s", (protocolVersion, transport, spec) => {
  it("answers what it declares, and refuses elicitation by url", async () => {
    const { session, record } = await start(await spec(), answers);
    expect(record.of("server.ready")[0]).toMatchObject({ name: "asking", version: "1.2.3", protocolVersion });
    for (const [tool, it] of [
      ["ask-user", { action: "accept", content: { colour: 'asking: "Which colour do you want?"' } }],
      ["ask-roots", { roots: answers.roots }],
      ["ask-model", { role: "assistant", content: { text: "asked for 10 tokens" }, model: "fake" }],
    ] as const)
      expect(JSON.parse(textOf(await session.callTool(tool, {}, callOptions())))).toMatchObject({ it });
    const outcome = await session.callTool("ask-address", {}, callOptions());
    expect(JSON.stringify(outcome)).not.toContain("accept");
    expect(hasFailed(outcome)).toBe(true);
  });

  it("declares nothing that it does not answer", async () => {
    const { session, record } = await start(await spec());
    const [first] = record.of("mcp.message");
    const { params = {} } = (first?.message ?? {}) as { params?: JsonObject };
    const meta = params["_meta"] as JsonObject | undefined;
    expect(params["capabilities"] ?? meta?.["io.modelcontextprotocol/clientCapabilities"]).toEqual({});
    for (const tool of ["ask-user", "ask-roots", "ask-model"])
      expect(hasFailed(await session.callTool(tool, {}, callOptions()))).toBe(true);
  });

  it("ends a call with the reason when a handler fails", async () => {
    const sampling = (): Promise<never> => Promise.reject(new Error("not now"));
    const { session } = await start(await spec(), { sampling });
    const outcome = await session.callTool("ask-model", {}, callOptions());
    expect(hasFailed(outcome)).toBe(true);
    expect(JSON.stringify(outcome)).toContain("not now");
  });

  it("reads resources, reports failing tools, and sends headers for proxies over HTTP", async () => {
    const { session } = await start(await spec());
    expect(session.abilities).toEqual({ tools: true, resources: true, prompts: false });
    const value = transport === "HTTP" ? "=?base64?esO8cmljaA==?=" : "unrouted";
    const refusal = { isError: true, content: [{ type: "text", text: "I do not want to" }] };
    const note = { uri: "note://one", name: "note" };
    for (const [outcome, result] of [
      [
        await session.readResource(note.uri, callOptions()),
        { contents: [{ uri: note.uri, text: "a note" }] },
      ],
      [await session.list("resources", callOptions()), { resources: [note] }],
      [await session.callTool("refuse", {}, callOptions()), refusal],
      [
        await session.callTool("routed", { region: "zürich" }, callOptions()),
        { content: [{ text: `zürich ${value}` }] },
      ],
    ] as const)
      expect(outcome).toMatchObject({ kind: "result", result });
    expect(await session.readResource("note://none", callOptions())).toMatchObject({
      kind: "error",
      code: expect.any(Number) as number,
    });
  });

  it("requests progress, and cancels a call that takes too long", async () => {
    const { session, record } = await start(await spec());
    const outcome = await session.callTool("slow", {}, callOptions({ timeoutMs: 400, progress: true }));
    expect(outcome).toMatchObject({ kind: "timeout", message: 'tool "slow" did not answer within 400 ms' });
    const methods = record.of("mcp.message").map(({ message }) => (message as { method?: string }).method);
    expect(methods).toContain("notifications/progress");
    expect(session.lost.aborted).toBe(false);
    expect(await session.callTool("refuse", {}, callOptions())).toMatchObject({ kind: "result" });
    expect(methods.includes("notifications/cancelled")).toBe(transport === "stdio");
  });
});

describe("without a protocol", () => {
  it.each([
    ["stdio", () => overStdio("modern")],
    ["HTTP", () => overHttp("reject")],
  ] as const)("takes the newer one where initialize is refused, over %s", async (_name, spec) => {
    const { session, record } = await start(await spec(), answers);
    expect(record.of("server.ready")[0]?.protocolVersion).toBe("2026-07-28");
    expect(record.of("server.started")).toHaveLength(1);
    expect(textOf(await session.callTool("ask-user", {}, callOptions()))).toContain("Which colour");
    expect(session.lost.aborted).toBe(false);
  });

  it("uses initialize where the server accepts it", async () => {
    const { record } = await start(await overStdio("both"));
    expect(record.of("server.ready")[0]?.protocolVersion).toBe("2025-11-25");
  });
});

test.each([
  [
    "modern",
    "legacy",
    /^server "s" answered initialize with an error: .* \(code -32022\)$/,
    "protocol: modern",
  ],
  ["legacy", "modern", /^server "s" does not speak MCP 2026-07-28: /, "initialize"],
] as const)(
  "a server that speaks only %s versions, greeted in a %s one",
  async (era, protocol, message, hint) => {
    const { error } = await failToStart(await overStdio(era, { protocol }));
    expect(error).toMatchObject({
      code: "server/protocol-error",
      message: expect.stringMatching(message) as string,
      details: { hint: expect.stringContaining(hint) as string },
    });
  },
);

test("a server that speaks only older versions, greeted in the newer way over HTTP", async () => {
  const server = await startHttpFixture(({ response, message }) => {
    if (message.method !== "server/discover") return false;
    response.writeHead(400, "Bad Request").end("no session");
    return true;
  });
  onTestFinished(() => server.close());
  const { error } = await failToStart(httpSpec(server.url, { protocol: "modern" }));
  expect(error).toMatchObject({
    code: "server/http-status",
    message: expect.stringMatching(/ answered POST with HTTP 400|answered POST \S+ with HTTP 400/) as string,
    details: { hint: expect.stringContaining("leave `protocol` out") as string },
  });
});
