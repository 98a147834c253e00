import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import type { Transport } from "@modelcontextprotocol/client";
import { describe, expect, it, onTestFinished } from "vitest";
import { askingServer, startAskingServer } from "../fixtures/servers/asking-server.ts";
import {
  addressHost,
  type ClientOptions,
  connectClient,
  openGateway,
  programHost,
  transportTo,
} from "./support.ts";

const capabilities = { sampling: {}, roots: {}, elicitation: { form: {}, url: {} } };
const negotiations = {
  legacy: {},
  pinned: { versionNegotiation: { mode: { pin: "2026-07-28" } } },
  auto: { versionNegotiation: { mode: "auto" } },
} satisfies Record<string, ClientOptions>;

/** What a client of one era gets of everything that the server has. */
async function visit(transport: Transport, options: ClientOptions): Promise<unknown> {
  const client = await connectClient(transport, { ...options, capabilities });
  client.setRequestHandler("sampling/createMessage", () => ({
    role: "assistant",
    content: { type: "text", text: "hi" },
    model: "m",
  }));
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { colour: "blue" } }));
  client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///one" }] }));
  const outcome = (work: Promise<unknown>): Promise<unknown> => work.catch((error: unknown) => String(error));
  const call = (name: string): Promise<unknown> => outcome(client.callTool({ name, arguments: {} }));
  const progress: unknown[] = [];
  const controller = new AbortController();
  const slow = outcome(
    client.callTool(
      { name: "slow", arguments: {} },
      {
        signal: controller.signal,
        onprogress: (one) => {
          progress.push(one);
          controller.abort("enough");
        },
      },
    ),
  );
  const seen = {
    era: client.getProtocolEra(),
    version: client.getServerVersion(),
    tools: await client.listTools(),
    calls: [await call("ask-user"), await call("ask-roots"), await call("ask-model"), await call("refuse")],
    missing: await call("none"),
    resources: await client.listResources(),
    note: await client.readResource({ uri: "note://one" }),
    slow: await slow,
    progress,
    again: await call("refuse"),
  };
  await client.close();
  return JSON.parse(JSON.stringify(seen)) as unknown;
}

const text = (value: string): unknown => [{ type: "text", text: expect.stringContaining(value) as string }];
const wanted = {
  legacy: {
    era: "legacy",
    calls: [{ content: text("blue") }, { content: text("one") }, { content: text("hi") }, { isError: true }],
  },
  pinned: {
    era: "modern",
    calls: [{ content: text("blue") }, { content: text("one") }, { content: text("hi") }, { isError: true }],
  },
  auto: {
    era: "modern",
    calls: [{ content: text("blue") }, { content: text("one") }, { content: text("hi") }, { isError: true }],
  },
};

describe.each(["legacy", "pinned", "auto"] as const)("a client (%s) of a server of both eras", (kind) => {
  it.each(["http", "bridge"] as const)("reaches a program over %s", async (way) => {
    const direct = await visit(
      new StdioClientTransport({ command: process.execPath, args: [askingServer, "both"], stderr: "ignore" }),
      negotiations[kind],
    );
    expect(direct).toMatchObject(wanted[kind]);
    const { endpoint, losses } = await openGateway(await programHost([askingServer, "both"]));
    expect(await visit(transportTo(endpoint, way), negotiations[kind])).toEqual(direct);
    expect(losses).toEqual([]);
  });

  it.each(["http", "bridge"] as const)("reaches an address over %s", async (way) => {
    const server = await startAskingServer("stateless");
    onTestFinished(() => server.close());
    const direct = await visit(new StreamableHTTPClientTransport(new URL(server.url)), negotiations[kind]);
    const { endpoint, losses } = await openGateway(await addressHost(server.url));
    expect(await visit(transportTo(endpoint, way), negotiations[kind])).toEqual(direct);
    expect(losses).toEqual([]);
  });
});
