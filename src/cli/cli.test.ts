import { describe, expect, it } from "vitest";
import type { Eval } from "../model/eval.ts";
import type { ServerSpec } from "../model/server.ts";
import type { Task } from "../model/task.ts";
import { variantLine } from "./commands/list.ts";
import { duration } from "./flags.ts";

const common = { startupTimeoutMs: 1000, maxMessageBytes: 1000 };
const db: ServerSpec = {
  transport: "stdio",
  command: "node",
  args: ["db.js"],
  env: { A: "secret" },
  cwd: "/",
  ...common,
};
const web: ServerSpec = { transport: "shttp", url: "http://x/mcp", headers: {}, ...common };
const mocked: ServerSpec = {
  transport: "mock",
  mock: { tools: {}, resources: [], prompts: [], state: {} },
  ...common,
};

const task: Task = {
  name: "a",
  form: "workflow",
  turns: [],
  expectTools: [],
  verify: [],
  parallel: true,
  servers: ["db", "web", "new"],
};

const spec: Eval = {
  name: "demo",
  servers: { db, web },
  agents: [],
  tasks: [task, { ...task, name: "b", servers: ["db"] }],
  trials: 1,
  limits: { trialMs: 1, callMs: 1, modelMs: 1 },
  reporters: [],
};

it.each<[string, Readonly<Record<string, ServerSpec>>, string]>([
  ["nothing", { db, web }, "v  the servers as they are"],
  ["a mock", { db: mocked, web }, "v  db: written answers"],
  ["another program", { db: { ...db, args: ["other.js"] }, web }, "v  db: node other.js"],
  [
    "settings",
    { db: { ...db, env: {}, tools: ["x"], startupTimeoutMs: 2, lifetime: "per_run" }, web },
    "v  db: env, startupTimeout, tools, per_run",
  ],
  ["one more and one less", { db, new: web }, "v  without web; new: http://x/mcp"],
])("tells of %s", (_, table, line) => {
  const { db: own } = table;
  const servers = { a: table, ...(own === undefined ? {} : { b: { db: own } }) };
  expect(variantLine({ name: "v", servers }, spec)).toBe(line);
});

it("tells of a variant without servers", () => {
  expect(variantLine({ name: "v", servers: { a: {}, b: {} } }, { ...spec, servers: {} })).toBe(
    "v  no servers",
  );
});

describe("a duration on the command line", () => {
  it.each([
    ["500ms", 500],
    ["5s", 5000],
    ["1.5m", 90_000],
    ["2 h", 7_200_000],
  ])("%s", (text, ms) => {
    expect(duration(text)).toBe(ms);
  });

  it.each(["5", " 30 ", "0.5", "1000"])("needs a unit: %j", (text) => {
    const number = text.trim();
    expect(() => duration(text)).toThrow(`Give it a unit: ${number}s, ${number}m or ${number}ms.`);
  });

  it.each(["", "0s", "-5s", "soon", "5x", "100d"])("is refused: %j", (text) => {
    expect(() => duration(text)).toThrow("Give a duration such as 500ms, 2s or 5m.");
  });
});
