import {
  Client,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, it, vi } from "vitest";
import { z } from "zod";
import type { ServerHost } from "../../src/servers/connections/host.ts";
import { listenEverything } from "./listen.ts";
import { addressHost, everythingMain, openGateway, programHost, transportTo } from "./support.ts";

const capabilities = { sampling: {}, roots: { listChanged: true }, elicitation: { form: {}, url: {} } };
const uri = "demo://resource/static/document/features.md";

/** Uses what the reference server has, and gives what a client got. */
async function visit(transport: Transport): Promise<unknown> {
  const heard = new Set<string>();
  const asked: unknown[] = [];
  const client = new Client({ name: "tourist", version: "1.0.0" }, { capabilities });
  client.setRequestHandler("sampling/createMessage", ({ params }) => {
    asked.push(params);
    return { role: "assistant", content: { type: "text", text: "sampled" }, model: "m" };
  });
  client.setRequestHandler("elicitation/create", ({ params }) => {
    asked.push(params);
    return { action: "accept", content: { name: "Ada" } };
  });
  client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///one", name: "one" }] }));
  client.fallbackNotificationHandler = ({ method }) => Promise.resolve(void heard.add(method));
  await client.connect(transport);
  const outcome = (work: Promise<unknown>): Promise<unknown> =>
    work.catch((error: unknown) => ({ error: (error as Error).message }));
  const call = (name: string, args: Record<string, unknown> = {}): Promise<unknown> =>
    outcome(client.callTool({ name, arguments: args }));
  try {
    // The server asks for roots shortly after the start.
    await vi.waitFor(async () => expect(JSON.stringify(await call("get-roots-list"))).toContain("one"), {
      timeout: 20_000,
    });
    const progress: unknown[] = [];
    const controller = new AbortController();
    const seen = [
      [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()],
      await client.listTools(),
      (await client.listResources()).resources.length,
      await client.listResourceTemplates(),
      await client.listPrompts(),
      await call("echo", { message: "héllo \u0000 😀" }),
      await call("get-tiny-image"),
      await call("get-structured-content", { location: "Chicago" }),
      await call("trigger-sampling-request", { prompt: "p", maxTokens: 5 }),
      await call("trigger-elicitation-request"),
      await call("get-sum", { a: "no number" }),
      await call("no-such-tool"),
      await client.readResource({ uri }),
      await outcome(client.readResource({ uri: "demo://nothing" })),
      await client.getPrompt({ name: "args-prompt", arguments: { city: "Rome" } }),
      await outcome(client.getPrompt({ name: "none" })),
      await client.complete({
        ref: { type: "ref/prompt", name: "completable-prompt" },
        argument: { name: "department", value: "E" },
      }),
      await outcome(client.request({ method: "mcpvals/unknown", params: { a: 1 } }, z.looseObject({}))),
      await client.setLoggingLevel("debug"),
      await client.subscribeResource({ uri }),
      await outcome(
        client.callTool(
          { name: "trigger-long-running-operation", arguments: { duration: 0.3, steps: 3 } },
          { onprogress: (one) => progress.push(one) },
        ),
      ),
      await outcome(
        client.callTool(
          { name: "trigger-long-running-operation", arguments: { duration: 20, steps: 200 } },
          { signal: controller.signal, onprogress: () => controller.abort("enough") },
        ),
      ),
    ];
    await vi.waitFor(() => expect(heard).toContain("notifications/message"), { timeout: 20_000 });
    // The SDK drops the last progress when the answer comes right behind it.
    return JSON.parse(JSON.stringify([...seen, progress.slice(0, 2), asked])) as unknown;
  } finally {
    await client.close();
  }
}

/** Both ways through the gateway show what the direct one does, and nothing is lost on them. */
async function compare(direct: Transport, openHost: () => Promise<ServerHost>): Promise<void> {
  const through = (["http", "bridge"] as const).map(async (way) => {
    const { endpoint, record, losses } = await openGateway(await openHost());
    return { seen: await visit(transportTo(endpoint, way)), record, losses };
  });
  const [expected, others] = await Promise.all([visit(direct), Promise.all(through)]);
  for (const { seen, record, losses } of others) {
    expect(seen).toEqual(expected);
    expect(losses).toEqual([]);
    expect(record.of("mcp.message").length).toBeGreaterThan(50);
  }
}

// At the same time, since the server waits for timers most of the time.
it("an agent of the reference server gets the same with and without the gateway", async () => {
  const [shttp, sse] = await Promise.all([
    listenEverything("streamableHttp").then((origin) => `${origin}/mcp`),
    listenEverything("sse").then((origin) => `${origin}/sse`),
  ]);
  const args = [everythingMain];
  const program = new StdioClientTransport({ command: process.execPath, args, stderr: "ignore" });
  await Promise.all([
    compare(program, () => programHost(args)),
    compare(new StreamableHTTPClientTransport(new URL(shttp)), () => addressHost(shttp)),
    compare(new SSEClientTransport(new URL(sse)), () => addressHost(sse, "sse")),
  ]);
}, 90_000);
