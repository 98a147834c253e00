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
      local: { transport: "stdio", command: "node server.js -v" },
      remote: { transport: "shttp", url: "https://example.com/mcp" },
    },
  });
  const { judge: _judge, ...unjudged } = spec;
  expect(runEnvironment(unjudged, versions)).not.toHaveProperty("judge");
  const alone = { ...spec, tasks: [toolTestTask()] };
  expect(runEnvironment(alone, versions).agents).toEqual([]);
});
