import { join } from "node:path";
import { expect, it } from "vitest";
import { folderOf, root, runCli, runHere } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { type ReceivedSpan, startCollector } from "../support/otlp.ts";
import { fixtureServer } from "./support.ts";

const config = {
  server: fixtureServer(),
  agent: { model: "anthropic/claude-sonnet-4-5" },
  toolHealthSuites: [
    { name: "suite", tests: [{ name: "echo", args: { message: "hi" }, expectedResult: "nothing" }] },
  ],
  workflows: [
    {
      name: "add",
      steps: [{ user: "What is 2 and 3?", expectedState: { contains: "5", in: "answer" } }],
      expectTools: ["add"],
    },
  ],
};

it("a run becomes one trace, with what the conventions name", async () => {
  await using model = await startFakeProvider([
    { tool: "add", args: { a: 2, b: 3 }, usage: { input: 20, output: 6 } },
    { text: "It is 5." },
  ]);
  const { url, spans, requests } = await startCollector();
  using folder = folderOf({ "mcp-eval.config.json": config });
  await runHere(["run"], { cwd: folder.path, env: { ...model.env } });
  const exported = await runCli(["export", "--url", url], { cwd: folder.path });
  expect([exported.code, exported.stderr]).toEqual([0, ""]);
  expect(exported.stdout).toBe(
    `${spans.length} spans of ${exported.stdout.split(" ")[3]} sent, as the trace ${spans[0]?.traceId}\n`,
  );
  expect(requests).toHaveLength(1);

  const byId = new Map(spans.map((span) => [span.spanId, span]));
  expect(byId.size).toBe(spans.length);
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
  expect(spans.every(({ service }) => service === "mcpvals")).toBe(true);
  const parentOf = (span: ReceivedSpan | undefined): ReceivedSpan | undefined =>
    byId.get(span?.parentSpanId ?? "");
  const named = (name: string): ReceivedSpan[] => spans.filter((span) => span.name === name);
  // Each is within its parent, and there is one root.
  const [root, ...more] = spans.filter(({ parentSpanId }) => parentSpanId === "");
  expect([root?.name, more]).toEqual([expect.stringMatching(/^run /), []]);
  for (const span of spans) {
    const parent = parentOf(span);
    if (span === root || parent === undefined) continue;
    expect([span.name, span.start >= parent.start, span.end <= parent.end]).toEqual([span.name, true, true]);
    expect(span.end >= span.start).toBe(true);
  }
  expect(spans.filter((span) => span !== root && parentOf(span) === undefined)).toEqual([]);

  const [call] = named("tools/call add");
  expect(call).toMatchObject({
    kind: 3,
    status: { code: 0 },
    attributes: {
      "mcp.method.name": "tools/call",
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "add",
      "jsonrpc.request.id": expect.any(String) as string,
      "mcp.protocol.version": expect.stringMatching(/^20\d\d-/) as string,
      "network.transport": "pipe",
    },
  });
  expect(call?.attributes).not.toHaveProperty(["gen_ai.tool.call.arguments"]);
  expect(parentOf(call)?.name).toMatch(/^invoke_agent /);
  expect(parentOf(parentOf(call))).toMatchObject({
    name: "trial add",
    attributes: { "test.case.name": "add", "test.case.result.status": "pass" },
    events: [
      {
        name: "gen_ai.evaluation.result",
        attributes: {
          "gen_ai.evaluation.score.label": "pass",
          "gen_ai.evaluation.name": expect.any(String) as string,
        },
      },
      expect.anything(),
      expect.anything(),
    ],
  });
  const [chat, ...others] = named("chat claude-sonnet-4-5");
  expect(others).toHaveLength(1);
  expect(chat).toMatchObject({
    kind: 3,
    attributes: {
      "gen_ai.provider.name": "anthropic",
      "gen_ai.request.model": "claude-sonnet-4-5",
      "gen_ai.request.stream": true,
      "gen_ai.response.time_to_first_chunk": expect.any(Number) as number,
      "gen_ai.response.finish_reasons": ["tool-calls"],
      "gen_ai.usage.input_tokens": 20,
      "gen_ai.usage.output_tokens": 6,
    },
  });
  expect(parentOf(chat)).toBe(parentOf(call));
  expect(named("trial suite/echo")[0]).toMatchObject({
    status: { code: 2, message: expect.stringContaining("nothing") as string },
    attributes: { "test.case.result.status": "fail", "mcpvals.verdict": "fail" },
  });
  expect(parentOf(named("tools/call echo")[0])?.name).toBe("step mcp");

  // A second export has the same ids, and the contents where they are asked for.
  const before = spans.splice(0);
  expect(
    await runHere(["export", "--url", `${url}/v1/traces`, "--content"], { cwd: folder.path }),
  ).toMatchObject({
    code: 0,
  });
  expect(spans.map(({ spanId }) => spanId)).toEqual(before.map(({ spanId }) => spanId));
  expect(named("tools/call add")[0]?.attributes).toMatchObject({
    "gen_ai.tool.call.arguments": '{"a":2,"b":3}',
    "gen_ai.tool.call.result": expect.stringContaining("5") as string,
  });
});

it("an imported session becomes a trace too, of the time in which it was", async () => {
  const { url, spans } = await startCollector();
  using folder = folderOf({});
  const session = join(root, "test/fixtures/transcripts/codex");
  await runHere(["import", session], { cwd: folder.path });
  expect(await runHere(["export", "--url", url], { cwd: folder.path })).toMatchObject({ code: 0 });
  const [run] = spans.filter(({ parentSpanId }) => parentSpanId === "");
  const tools = spans.filter(({ name }) => name.startsWith("execute_tool "));
  expect(tools).not.toEqual([]);
  for (const { start, end } of spans)
    expect([run !== undefined && start >= run.start, run !== undefined && end <= run.end]).toEqual([
      true,
      true,
    ]);
});

it("a collector that refuses, is not there, or is no address, is said", async () => {
  using folder = folderOf({ "mcp-eval.config.json": { ...config, workflows: [] } });
  await runHere(["run"], { cwd: folder.path });
  const { url } = await startCollector();
  for (const [address, code, said] of [
    [`${url}/other`, 3, "export/refused"],
    ["http://127.0.0.1:1", 3, "export/refused"],
    ["collector", 2, "--url collector is no address"],
  ] as const) {
    const refused = await runHere(["export", "--url", address], { cwd: folder.path });
    expect([refused.code, refused.stderr]).toEqual([code, expect.stringContaining(said)]);
  }
});
