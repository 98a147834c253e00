import { expect, it } from "vitest";
import { toolTestTask, workflowTask } from "../../../test/support/trial-events.ts";
import type { Eval } from "../formats/model.ts";
import { runEnvironment } from "./environment.ts";

it("says what ran where, and nothing that could be secret", () => {
  const base = { startupTimeoutMs: 1000, maxMessageBytes: 1000 };
  const spec: Eval = {
    name: "any",
    servers: {
      local: {
        ...base,
        transport: "stdio",
        command: "node",
        args: ["server.js", "-v"],
        env: { KEY: "secret" },
        cwd: "/x",
      },
      remote: {
        ...base,
        transport: "shttp",
        url: "https://example.com/mcp",
        headers: { authorization: "secret" },
      },
    },
    agents: [
      {
        type: "model",
        name: "claude",
        model: "anthropic/x",
        apiKey: "secret",
        baseURL: "https://secret",
        maxSteps: 5,
      },
      { type: "scripted", name: "script", plan: {} },
    ],
    judge: { model: "openai/gpt-4o", apiKey: "secret", passThreshold: 0.8 },
    tasks: [workflowTask()],
    trials: 1,
    limits: { trialMs: 1, callMs: 1, modelMs: 1 },
    reporters: [],
  };
  const versions = { mcpvals: "0.1.0", node: "24.0.0", platform: "linux" };
  expect(runEnvironment(spec, versions)).toEqual({
    ...versions,
    agents: [
      { name: "claude", type: "model", model: "anthropic/x" },
      { name: "script", type: "scripted" },
    ],
    judge: { model: "openai/gpt-4o" },
    servers: {
      local: {
        transport: "stdio",
        command: "node server.js -v",
        variables: ["KEY"],
        lifetime: "per_trial",
      },
      remote: {
        transport: "shttp",
        url: "https://example.com/mcp",
        headers: ["authorization"],
        lifetime: "per_run",
      },
    },
  });
  const { judge: _judge, ...unjudged } = spec;
  expect(runEnvironment(unjudged, versions)).not.toHaveProperty("judge");
  const alone = { ...spec, tasks: [toolTestTask()] };
  expect(runEnvironment(alone, versions).agents).toEqual([]);
});

it("tells the servers of each variant, and of tasks only where they differ", () => {
  const base = {
    startupTimeoutMs: 1,
    maxMessageBytes: 1,
    transport: "stdio",
    args: [],
    env: {},
    cwd: "/x",
  } as const;
  const server = (command: string): Eval["servers"][string] => ({ ...base, command });
  const described = (command: string): object => ({
    transport: "stdio",
    command,
    variables: [],
    lifetime: "per_trial",
  });
  const environment = runEnvironment(
    {
      name: "any",
      servers: { a: server("one") },
      agents: [],
      tasks: [],
      trials: 1,
      limits: { trialMs: 1, callMs: 1, modelMs: 1 },
      reporters: [],
      taskServers: { t1: {}, t2: { own: server("mine") } },
      variants: [
        { name: "old", servers: { t1: { a: server("one") }, t2: { a: server("one") } } },
        { name: "new", servers: { t1: { a: server("two") }, t2: {} } },
      ],
    },
    { mcpvals: "0", node: "24", platform: "linux" },
  );
  expect(environment.taskServers).toEqual({ t2: { own: described("mine") } });
  expect(environment.variants).toEqual({
    old: { servers: { a: described("one") } },
    new: { servers: { a: described("two") }, tasks: { t2: {} } },
  });
});
