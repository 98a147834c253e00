import { join } from "node:path";
import { expect, it } from "vitest";
import { planCheck } from "../../src/check/plan-check.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import type { Task } from "../../src/model/task.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { isJsonObject } from "../../src/base/json.ts";
import { probeServer } from "../../src/check/server-prober.ts";
import { stdioSpec } from "../servers/support.ts";
import { askingServer } from "../support/programs.ts";
import { checked, faultyServer, serverWith } from "./support.ts";
import { folderOf } from "../support/cli.ts";

/** The tasks that check a server. */
async function planned(server: ServerSpec): Promise<readonly Task[]> {
  await using validator = new SchemaValidator();
  const { tasks } = await planCheck(
    { s: server },
    {
      calls: "safe",
      security: false,
      disable: [],
      accepted: [],
      callMs: 5000,
      signal: new AbortController().signal,
      validationOf: () => validator.validate.bind(validator),
    },
  );
  return tasks;
}

it("says which resources it does not read", async () => {
  using folder = folderOf({
    "server.mjs": serverWith({}, { templates: { "notes://{path}": "return path;" } }),
  });
  const tasks = await planned(stdioSpec(process.execPath, [join(folder.path, "server.mjs")]));
  expect(tasks.flatMap(({ check }) => check?.notRead ?? [])).toEqual([
    "1 resource template: values of the variables are not known",
  ]);
});

it("says which tools the limit of calls leaves out", async () => {
  const tasks = await planned(faultyServer("tools=300"));
  const [calls, definitions] = ["calls", "definitions"].map((kind) =>
    tasks.find(({ check }) => check?.kind === kind),
  );
  const called = new Set(calls?.check?.calls?.map(({ tool }) => tool));
  expect(calls?.check?.calls?.length).toBeGreaterThanOrEqual(500);
  expect(definitions?.check?.notCalled).toHaveLength(301 - called.size);
  expect(definitions?.check?.notCalled?.at(-1)).toMatchObject({
    tool: "tool_299",
    reason: "a check makes 500 calls at most",
  });
});

it("says which tools are not called whatever --calls says", async () => {
  const tasks = await planned(faultyServer("odd-schemas", "not-annotated"));
  expect(tasks.flatMap(({ check }) => check?.notCalled ?? [])).toMatchObject([
    { tool: "word", reason: "not annotated readOnlyHint: true, so called only with --calls all" },
    { tool: "seven", reason: "its inputSchema is not an object" },
    { tool: "nothing", reason: "its inputSchema is not an object" },
  ]);
});

it.each([
  ["no-tools", "the server lists no tools", "the server lists nothing"],
  [
    "exit-on-list=tools",
    "the server did not give its list of tools",
    "the server gave no list that could be compared",
  ],
])("says why calls and listings are skipped: %s", async (fault, calls, stability) => {
  const tasks = await planned(faultyServer(fault));
  const skipped = ["calls", "stability"].map(
    (kind) => tasks.find(({ check }) => check?.kind === kind)?.check?.skipped,
  );
  expect(skipped).toEqual([calls, stability]);
});

it.each([
  ["legacy", "2025-11-25"],
  ["modern", "2026-07-28"],
])("says which version of MCP the sessions have: %s", async (era, protocolVersion) => {
  const tasks = await planned(stdioSpec(process.execPath, [askingServer, era]));
  const about = tasks.flatMap(({ check }) => check?.about ?? []);
  expect(about).toMatchObject([{ name: "asking", protocolVersion }]);
});

it("starts one thread for the schemas of a check, which its plan and its run share", async () => {
  let threads = 0;
  const count = (): void => void (threads += 1);
  // Not plain, so that a thread validates the arguments that are made, and those that were sent.
  const inputSchema = {
    type: "object",
    properties: { city: { type: "string", pattern: "^[A-Z]" } },
    minProperties: 1,
  };
  const outputSchema = { type: "object", minProperties: 1 };
  const program = `
    const tool = { name: "look", description: "Looks.", inputSchema: ${JSON.stringify(inputSchema)},
      outputSchema: ${JSON.stringify(outputSchema)}, annotations: { readOnlyHint: true } };
    const answers = {
      initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } }),
      "tools/list": () => ({ tools: [tool] }),
      "tools/call": () => ({ content: [{ type: "text", text: "{}" }], structuredContent: {} }),
      ping: () => ({}),
    };
    const wrong = { code: -32601, message: "Method not found" };
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      if (!line.endsWith("}")) return;
      const { id, method, params = {} } = JSON.parse(line);
      const known = answers[method] && params.name !== "mcpvals-no-such-tool";
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, ...(known ? { result: answers[method](params) } : { error: wrong }) }));
    });`;
  using folder = folderOf({ "server.cjs": program });
  process.on("worker", count);
  try {
    const { findings } = await checked([process.execPath, `${folder.path}/server.cjs`]);
    expect(findings.map(({ code }) => code)).toContain("call/output-schema");
  } finally {
    process.off("worker", count);
  }
  expect(threads).toBe(1);
});

it("keeps the rate limit of a server", async () => {
  const perMs = 200;
  const times: number[] = [];
  await probeServer({
    server: "s",
    spec: { ...faultyServer(), rateLimit: { requests: 1, perMs } },
    check: { kind: "definitions", disable: [] },
    signal: new AbortController().signal,
    callMs: 60_000,
    emit: (event) => {
      if (event.type !== "mcp.message" || event.direction !== "client-to-server") return 0;
      return isJsonObject(event.message) && "id" in event.message ? times.push(performance.now()) : 0;
    },
  });
  expect(times.length).toBeGreaterThan(2);
  expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeGreaterThan(((times.length - 1) * perMs) / 2);
});
