import { expect, it } from "vitest";
import { toolTestTask, workflowTask } from "../../test/support/trial-events.ts";
import { defaultSandbox } from "../model/sandbox.ts";
import type { Eval } from "../model/eval.ts";
import type { ExtensionSpec, Task } from "../model/task.ts";
import { extensionSummaries, runEnvironment } from "./environment.ts";

const versions = { mcpvals: "0.1.0", node: "24.0.0", platform: "linux" };
const base = { startupTimeoutMs: 1000, maxMessageBytes: 1000 };
const stdio = { ...base, transport: "stdio", args: [], env: {}, cwd: "/x" } as const;
const server = (command: string): Eval["servers"][string] => ({ ...stdio, command });
const described = (command: string) => ({
  transport: "stdio",
  command,
  variables: [] as string[],
  lifetime: "per_trial",
});
const limits = { trialMs: 1, callMs: 1, modelMs: 1 };
const empty: Eval = { name: "any", servers: {}, agents: [], tasks: [], trials: 1, limits, reporters: [] };

it("says what ran where, and nothing that could be secret", () => {
  const remote = { ...base, transport: "shttp", url: "https://example.com/mcp" } as const;
  const model = { type: "model", name: "claude", model: "anthropic/x", apiKey: "secret" } as const;
  const spec: Eval = {
    ...empty,
    servers: {
      local: { ...stdio, command: "node", args: ["server.js", "-v"], env: { KEY: "secret" } },
      remote: { ...remote, headers: { authorization: "secret" }, required: false, tools: ["a"] },
    },
    agents: [
      { ...model, baseURL: "https://secret", maxSteps: 5 },
      { type: "scripted", name: "script", plan: {} },
    ],
    judge: { model: "openai/gpt-4o", apiKey: "secret", passThreshold: 0.8 },
    tasks: [workflowTask()],
  };
  const { transport, url } = remote;
  expect(runEnvironment(spec, versions)).toEqual({
    ...versions,
    agents: [
      { name: "claude", type: "model", model: "anthropic/x" },
      { name: "script", type: "scripted" },
    ],
    judge: { model: "openai/gpt-4o" },
    servers: {
      local: { ...described("node server.js -v"), variables: ["KEY"] },
      remote: {
        transport,
        url,
        headers: ["authorization"],
        lifetime: "per_run",
        required: false,
        tools: ["a"],
      },
    },
  });
  const { judge: _judge, ...unjudged } = spec;
  expect(runEnvironment(unjudged, versions)).not.toHaveProperty("judge");
  expect(runEnvironment({ ...spec, tasks: [toolTestTask()] }, versions).agents).toEqual([]);
});

it("has the servers of each variant, and of tasks only where they differ", () => {
  const spec: Eval = {
    ...empty,
    servers: { a: server("one") },
    taskServers: { t1: {}, t2: { own: server("mine") } },
    variants: [
      { name: "old", servers: { t1: { a: server("one") }, t2: { a: server("one") } } },
      { name: "new", servers: { t1: { a: server("two") }, t2: {} } },
    ],
  };
  expect(runEnvironment(spec, versions)).toMatchObject({
    taskServers: { t2: { own: described("mine") } },
    variants: {
      old: { servers: { a: described("one") } },
      new: { servers: { a: described("two") }, tasks: { t2: {} } },
    },
  });
  expect(runEnvironment(spec, versions).taskServers).not.toHaveProperty("t1");
});

it("names each extension of the tasks once, with the version and the hash of what is used", () => {
  const extension = (alias: string, from: string): ExtensionSpec => {
    const sandbox = { ...defaultSandbox, kind: "process" } as const;
    return { alias, package: from, dir: "/e", config: {}, env: {}, sandbox };
  };
  const task = (...extensions: readonly ExtensionSpec[]): Task => {
    const table = Object.fromEntries(extensions.map((each) => [each.alias, each]));
    return { portable: { extensions: table } } as unknown as Task;
  };
  const [k8s, csv] = [extension("k8s", "github.com/o/k8s@v1"), extension("csv", "./csv")];
  const tasks = [task(k8s, csv), task(k8s), { portable: {} } as unknown as Task, {} as unknown as Task];
  const used = { version: "v1.2.0", hash: "sha256:ab" };
  expect(extensionSummaries({ tasks }, ({ alias }) => (alias === "k8s" ? used : {}))).toEqual([
    { name: "k8s", package: "github.com/o/k8s@v1", ...used, sandbox: "process" },
    { name: "csv", package: "./csv", sandbox: "process" },
  ]);
});
