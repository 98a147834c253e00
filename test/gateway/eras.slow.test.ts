import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import type { Transport } from "@modelcontextprotocol/client";
import { describe, expect, it, onTestFinished } from "vitest";
import type { ServerHost } from "../../src/servers/connections/host.ts";
import { startAskingServer } from "../fixtures/servers/asking-server.ts";
import {
  addressHost,
  type ClientOptions,
  connectClient,
  openGateway,
  programHost,
  transportTo,
} from "./support.ts";
import { askingServer } from "../support/programs.ts";

const capabilities = { sampling: {}, roots: {}, elicitation: { form: {}, url: {} } };
const negotiations = {
  legacy: {},
  auto: { versionNegotiation: { mode: "auto" } },
} satisfies Record<string, ClientOptions>;

/** The results of a client that uses every feature of the server. */
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

const text = (value: string): unknown => ({ content: [{ text: expect.stringContaining(value) as string }] });
const calls = [text("blue"), text("one"), text("hi"), { isError: true }];

describe.each(["legacy", "auto"] as const)("a client (%s) of a server with both protocol eras", (kind) => {
  /** Expects the same results over HTTP and over the bridge as on a direct connection. */
  async function compare(direct: Transport, open: () => Promise<ServerHost>): Promise<unknown> {
    const through = (["http", "bridge"] as const).map(async (way) => {
      const { endpoint, losses } = await openGateway(await open());
      const seen = await visit(transportTo(endpoint, way), negotiations[kind]);
      return { seen, losses };
    });
    const [expected, ...others] = await Promise.all([visit(direct, negotiations[kind]), ...through]);
    for (const other of others) expect(other).toEqual({ seen: expected, losses: [] });
    return expected;
  }

  it("reaches a program", async () => {
    const args = [askingServer, "both"];
    const direct = new StdioClientTransport({ command: process.execPath, args, stderr: "ignore" });
    const seen = await compare(direct, () => programHost(args));
    expect(seen).toMatchObject({ era: kind === "legacy" ? "legacy" : "modern", calls });
  });

  it("reaches an address", async () => {
    const server = await startAskingServer("stateless");
    onTestFinished(() => server.close());
    await compare(new StreamableHTTPClientTransport(new URL(server.url)), () => addressHost(server.url));
  });
});
