import { Client, type Transport } from "@modelcontextprotocol/client";
import { expect, vi } from "vitest";
import { z } from "zod";

const anything = z.looseObject({});
const capabilities = {
  sampling: {},
  roots: { listChanged: true },
  elicitation: { form: {}, url: {} },
  tasks: { requests: { sampling: { createMessage: {} }, elicitation: { create: {} } } },
};
const uri = "demo://resource/static/document/features.md";

/**
 * Uses everything that the reference server has, and gives what a client got, with what differs from run to run (ids,
 * times) replaced.
 */
export async function tour(transport: Transport): Promise<unknown> {
  const heard: { method: string; params?: unknown }[] = [];
  const asked: unknown[] = [];
  const client = new Client({ name: "tourist", version: "1.0.0" }, { capabilities });
  client.setRequestHandler("sampling/createMessage", ({ params }) => {
    asked.push(params);
    return { role: "assistant", content: { type: "text", text: "sampled" }, model: "m" };
  });
  client.setRequestHandler("elicitation/create", ({ params }) => {
    asked.push(params);
    return { action: "accept", content: { name: "Ada", interpretation: "technical" } };
  });
  client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///one", name: "one" }] }));
  client.fallbackNotificationHandler = (notification) => {
    heard.push(notification);
    return Promise.resolve();
  };
  await client.connect(transport);
  const hears = (method: string): Promise<void> =>
    vi.waitFor(() => expect(heard.map((one) => one.method)).toContain(method), { timeout: 20_000 });
  const call = (name: string, args: Record<string, unknown> = {}): Promise<unknown> =>
    outcome(client.callTool({ name, arguments: args }));
  const raw = (method: string, params: Record<string, unknown> = {}): Promise<unknown> =>
    outcome(client.request({ method, params }, anything));
  const seen: Record<string, unknown> = {};
  try {
    // The server asks for roots shortly after the start.
    await vi.waitFor(
      async () =>
        expect(await call("get-roots-list")).toHaveProperty(
          "value.content.0.text",
          expect.stringContaining("one"),
        ),
      { timeout: 20_000 },
    );
    seen["server"] = [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()];
    seen["tools"] = await client.listTools();
    seen["resources"] = await client.listResources();
    seen["templates"] = await client.listResourceTemplates();
    seen["prompts"] = await client.listPrompts();
    seen["calls"] = [
      await call("echo", { message: "héllo \u0000 😀" }),
      await call("get-sum", { a: 1, b: 2 }),
      await call("get-tiny-image"),
      await call("get-annotated-message", { messageType: "error", includeImage: true }),
      await call("get-resource-links", { count: 2 }),
      await call("get-resource-reference", { resourceType: "Text", resourceId: 1 }),
      await call("get-structured-content", { location: "Chicago" }),
      await call("gzip-file-as-resource", {
        name: "a.gz",
        data: "data:text/plain;base64,aGVsbG8=",
        outputType: "resource",
      }),
      await call("trigger-sampling-request", { prompt: "p", maxTokens: 5 }),
      await call("trigger-elicitation-request"),
      await call("trigger-sampling-request-async", { prompt: "p" }),
      await call("get-sum", { a: "no number" }),
      await call("no-such-tool"),
    ];
    seen["read"] = [
      await outcome(client.readResource({ uri })),
      await outcome(client.readResource({ uri: "demo://resource/dynamic/blob/1" })),
      await outcome(client.readResource({ uri: "demo://nothing" })),
    ];
    seen["got"] = [
      await outcome(client.getPrompt({ name: "simple-prompt" })),
      await outcome(client.getPrompt({ name: "args-prompt", arguments: { city: "Rome" } })),
      await outcome(client.getPrompt({ name: "none" })),
    ];
    seen["completion"] = await outcome(
      client.complete({
        ref: { type: "ref/prompt", name: "completable-prompt" },
        argument: { name: "department", value: "E" },
      }),
    );
    seen["unknown"] = [await raw("mcpvals/unknown", { a: 1 }), await raw("ping")];
    seen["level"] = await outcome(client.setLoggingLevel("debug"));
    seen["subscribe"] = await outcome(client.subscribeResource({ uri }));
    await hears("notifications/message");
    seen["updates"] = await call("toggle-subscriber-updates");
    await hears("notifications/resources/updated");
    seen["stopped"] = [
      await call("toggle-subscriber-updates"),
      await outcome(client.unsubscribeResource({ uri })),
    ];
    seen["logging"] = [await call("toggle-simulated-logging"), await call("toggle-simulated-logging")];
    const progress: unknown[] = [];
    seen["long"] = await outcome(
      client.callTool(
        { name: "trigger-long-running-operation", arguments: { duration: 0.3, steps: 3 } },
        { onprogress: (one) => progress.push(one) },
      ),
    );
    // The SDK drops the last one when the answer comes right behind it.
    seen["progress"] = progress.slice(0, 2);
    seen["cancelled"] = await cancelled(client);
    await client.sendRootsListChanged();
    seen["tasks"] = await tasks(raw);
    seen["asked"] = asked;
    seen["heard"] = [...new Set(heard.map(({ method }) => method))].toSorted();
    return settled(seen);
  } finally {
    await client.close();
  }
}

async function cancelled(client: Client): Promise<unknown> {
  const controller = new AbortController();
  const calling = client.callTool(
    { name: "trigger-long-running-operation", arguments: { duration: 20, steps: 200 } },
    { signal: controller.signal, onprogress: () => controller.abort("enough") },
  );
  return outcome(calling);
}

async function tasks(
  raw: (method: string, params?: Record<string, unknown>) => Promise<unknown>,
): Promise<unknown> {
  const begin = (topic: string, ambiguous: boolean): Promise<unknown> =>
    raw("tools/call", {
      name: "simulate-research-query",
      arguments: { topic, ambiguous },
      task: { ttl: 60_000 },
    });
  const first = await begin("one", true);
  const second = await begin("two", false);
  const idOf = (task: unknown): string => (task as { value: { task: { taskId: string } } }).value.task.taskId;
  const cancel = await raw("tasks/cancel", { taskId: idOf(second) });
  await vi.waitFor(
    async () =>
      expect(await raw("tasks/get", { taskId: idOf(first) })).toHaveProperty(
        "value.status",
        "input_required",
      ),
    { timeout: 20_000, interval: 200 },
  );
  const result = await raw("tasks/result", { taskId: idOf(first) });
  return [
    first,
    second,
    cancel,
    result,
    await raw("tasks/get", { taskId: idOf(first) }),
    await raw("tasks/list"),
  ];
}

async function outcome(work: Promise<unknown>): Promise<unknown> {
  try {
    return { value: await work };
  } catch (error) {
    const { code, message } = error as { code?: unknown; message: string };
    return { code, message };
  }
}

/** What differs from run to run: ids, times. */
function settled(value: unknown): unknown {
  const text = JSON.stringify(value)
    // A text with the time in it.
    .replaceAll(/"blob":"(UmVzb3VyY2U[^"]*)"/g, (_, blob: string) => `"blob":"${atob(blob)}"`)
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "<uuid>")
    .replaceAll(/\b[0-9a-f]{32}\b/g, "<id>")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
    .replaceAll(/\d{1,2}:\d\d:\d\d(?: [AP]M)?/g, "<time>");
  return JSON.parse(text);
}
