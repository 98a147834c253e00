import { describe, expect, it, onTestFinished, test } from "vitest";
import type { JsonObject, ServerSpec } from "../../src/core/formats/model.ts";
import { startServer } from "../../src/servers/start-server.ts";
import type { CallOutcome, ClientSide, ServerSession } from "../../src/servers/client/session.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { askingServer, startAskingServer } from "../fixtures/servers/asking-server.ts";
import { callOptions, createRecord, failToStart, httpSpec, type Record, stdioSpec } from "./support.ts";

interface Era {
  readonly name: string;
  readonly version: string;
  readonly spec: () => Promise<ServerSpec>;
}

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

const legacyStdio: Era = {
  name: "2025-11-25 over stdio",
  version: "2025-11-25",
  spec: () => overStdio("legacy"),
};
const modernEras: readonly Era[] = [
  {
    name: "2026-07-28 over stdio",
    version: "2026-07-28",
    spec: () => overStdio("both", { protocol: "modern" }),
  },
  {
    name: "2026-07-28 over HTTP",
    version: "2026-07-28",
    spec: () => overHttp("stateless", { protocol: "modern" }),
  },
];

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

describe.each([legacyStdio, ...modernEras])("$name", ({ version, spec }) => {
  it("answers what it declares", async () => {
    const { session, record } = await start(await spec(), answers);
    expect(record.of("server.ready")[0]).toMatchObject({
      name: "asking",
      version: "1.2.3",
      protocolVersion: version,
    });
    expect(JSON.parse(textOf(await session.callTool("ask-user", {}, callOptions())))).toEqual({
      it: { action: "accept", content: { colour: 'asking: "Which colour do you want?"' } },
    });
    expect(JSON.parse(textOf(await session.callTool("ask-roots", {}, callOptions())))).toEqual({
      it: { roots: answers.roots },
    });
    expect(JSON.parse(textOf(await session.callTool("ask-model", {}, callOptions())))).toMatchObject({
      it: { role: "assistant", content: { text: "asked for 10 tokens" }, model: "fake" },
    });
  });

  it("declares nothing that it does not answer", async () => {
    const { session, record } = await start(await spec());
    const [first] = record.of("mcp.message");
    const { params = {} } = (first?.message ?? {}) as { params?: JsonObject };
    const meta = params["_meta"] as JsonObject | undefined;
    expect(params["capabilities"] ?? meta?.["io.modelcontextprotocol/clientCapabilities"]).toEqual({});
    for (const tool of ["ask-user", "ask-roots", "ask-model"]) {
      const outcome = await session.callTool(tool, {}, callOptions());
      expect(outcome.kind === "error" || (outcome.kind === "result" && outcome.result["isError"])).toBe(true);
    }
  });

  it("refuses elicitation by url", async () => {
    const { session } = await start(await spec(), answers);
    const outcome = await session.callTool("ask-address", {}, callOptions());
    expect(JSON.stringify(outcome)).not.toContain("accept");
    expect(outcome.kind === "error" || (outcome.kind === "result" && outcome.result["isError"])).toBe(true);
  });

  it("ends a call with the reason when a handler fails", async () => {
    const sampling = (): Promise<never> => Promise.reject(new Error("not now"));
    const { session } = await start(await spec(), { sampling });
    const outcome = await session.callTool("ask-model", {}, callOptions());
    expect(outcome.kind === "error" || (outcome.kind === "result" && outcome.result["isError"])).toBe(true);
    expect(JSON.stringify(outcome)).toContain("not now");
  });

  it("reads resources, and reports failing tools", async () => {
    const { session } = await start(await spec());
    expect(session.abilities).toEqual({ tools: true, resources: true, prompts: false });
    expect(await session.readResource("note://one", callOptions())).toMatchObject({
      kind: "result",
      result: { contents: [{ uri: "note://one", text: "a note" }] },
    });
    expect(await session.list("resources", callOptions())).toMatchObject({
      kind: "result",
      result: { resources: [{ uri: "note://one", name: "note" }] },
    });
    expect(await session.callTool("refuse", {}, callOptions())).toMatchObject({
      kind: "result",
      result: { isError: true, content: [{ type: "text", text: "I do not want to" }] },
    });
    expect(await session.readResource("note://none", callOptions())).toMatchObject({
      kind: "error",
      code: expect.any(Number) as number,
    });
  });

  it("sends the headers for proxies over HTTP since 2026-07-28", async () => {
    const { session, record } = await start(await spec());
    const overAddress = record.of("http.response").length > 0;
    expect(textOf(await session.callTool("routed", { region: "zürich" }, callOptions()))).toBe(
      `zürich ${overAddress ? "=?base64?esO8cmljaA==?=" : "unrouted"}`,
    );
  });

  it("requests progress, and cancels a call that takes too long", async () => {
    const { session, record } = await start(await spec());
    const outcome = await session.callTool("slow", {}, callOptions({ timeoutMs: 400, progress: true }));
    expect(outcome).toMatchObject({ kind: "timeout", message: 'tool "slow" did not answer within 400 ms' });
    const methods = record.of("mcp.message").map(({ message }) => (message as { method?: string }).method);
    expect(methods).toContain("notifications/progress");
    expect(session.lost.aborted).toBe(false);
    expect(await session.callTool("refuse", {}, callOptions())).toMatchObject({ kind: "result" });
    expect(methods.includes("notifications/cancelled")).toBe(record.of("http.response").length === 0);
  });

  it("limits a call that waits for the client", async () => {
    const sampling = (_params: JsonObject, signal: AbortSignal): Promise<never> =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
      });
    const { session } = await start(await spec(), { sampling });
    const outcome = await session.callTool("ask-model", {}, callOptions({ timeoutMs: 300 }));
    expect(outcome).toMatchObject({ kind: "timeout" });
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

test("a server that speaks only newer versions, greeted in the older way", async () => {
  const { error } = await failToStart(await overStdio("modern", { protocol: "legacy" }));
  expect(error).toMatchObject({
    code: "server/protocol-error",
    message: expect.stringMatching(
      /^server "s" answered initialize with an error: .* \(code -32022\)$/,
    ) as string,
    details: { hint: expect.stringContaining("protocol: modern") as string },
  });
});

test("a server that speaks only older versions, greeted in the newer way", async () => {
  const { error } = await failToStart(await overStdio("legacy", { protocol: "modern" }));
  expect(error).toMatchObject({
    code: "server/protocol-error",
    message: expect.stringMatching(/^server "s" does not speak MCP 2026-07-28: /) as string,
    details: { hint: expect.stringContaining("initialize") as string },
  });
});

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
