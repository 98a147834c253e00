import { describe, expect, it } from "vitest";
import { portableTask } from "../../test/support/portable.ts";
import { toolTestTask, workflowTask } from "../../test/support/trial-events.ts";
import type { Eval } from "./eval.ts";
import type { StdioServerSpec } from "./server.ts";
import { applyOverrides } from "./plan.ts";

const server: StdioServerSpec = {
  transport: "stdio",
  command: "node",
  args: [],
  env: {},
  cwd: "/",
  startupTimeoutMs: 5000,
  maxMessageBytes: 1000,
};

const spec: Eval = {
  name: "any",
  servers: { quick: { ...server, startupTimeoutMs: 100 }, slow: server },
  agents: [],
  tasks: [
    workflowTask({ name: "one" }),
    toolTestTask({}, { timeoutMs: 4000 }),
    toolTestTask({}, { timeoutMs: 10 }),
  ],
  trials: 1,
  limits: { trialMs: 60_000, callMs: 30_000, modelMs: 500 },
  reporters: ["console"],
};

describe("applyOverrides", () => {
  it("changes nothing without any", () => {
    expect(applyOverrides(spec, {})).toEqual(spec);
  });

  it("sets trials and concurrency", () => {
    expect(applyOverrides(spec, { trials: 3, concurrency: 2 })).toEqual({
      ...spec,
      trials: 3,
      concurrency: 2,
    });
    expect(applyOverrides({ ...spec, trials: 5, concurrency: 5 }, { trials: 1 })).toEqual({
      ...spec,
      concurrency: 5,
    });
  });

  it("keeps the tasks that are selected", () => {
    expect(applyOverrides(spec, { selects: (task) => task.form === "workflow" })).toEqual({
      ...spec,
      tasks: [spec.tasks[0]],
    });
  });

  it("lets nothing inside a trial take longer than the trial", () => {
    expect(applyOverrides(spec, { timeoutMs: 1000, selects: (task) => task.form === "tool-test" })).toEqual({
      ...spec,
      servers: { quick: { ...server, startupTimeoutMs: 100 }, slow: { ...server, startupTimeoutMs: 1000 } },
      tasks: [toolTestTask({}, { timeoutMs: 1000 }), toolTestTask({}, { timeoutMs: 10 })],
      limits: { trialMs: 1000, callMs: 1000, modelMs: 500 },
    });
    const limits = { ...spec.limits, maxToolCalls: 5, maxTokens: 6, maxCost: 7 };
    expect(applyOverrides({ ...spec, limits }, { timeoutMs: 1000 }).limits).toMatchObject({
      maxToolCalls: 5,
      maxTokens: 6,
      maxCost: 7,
    });
  });

  it("lets a number of attempts win over those of tasks, and a limit over those of their servers", () => {
    const task = portableTask({ runs: 3, timeoutMs: 90_000 }, { name: "portable" });
    const own = { portable: { mine: server, quick: { ...server, startupTimeoutMs: 100 } } };
    const changed = applyOverrides(
      { ...spec, tasks: [task], taskServers: own },
      { trials: 2, timeoutMs: 1000 },
    );
    expect(changed.tasks[0]?.portable).not.toHaveProperty("runs");
    expect(changed.tasks[0]?.portable?.timeoutMs).toBe(1000);
    expect(changed.taskServers).toEqual({
      portable: {
        mine: { ...server, startupTimeoutMs: 1000 },
        quick: { ...server, startupTimeoutMs: 100 },
      },
    });
    expect(applyOverrides({ ...spec, tasks: [task] }, {}).tasks[0]?.portable?.runs).toBe(3);
  });

  it("keeps the variants that are named, whose servers take no longer than the trial, with all else", () => {
    const table = (startupTimeoutMs: number) => ({ one: { slow: { ...server, startupTimeoutMs } } });
    const variants = ["a", "b", "c"].map((name) => ({ name, servers: table(30_000) }));
    const changed = applyOverrides(
      { ...spec, variants },
      { variants: ["c", "a"], timeoutMs: 1000, trials: 4 },
    );
    expect(changed.variants).toEqual(["a", "c"].map((name) => ({ name, servers: table(1000) })));
    expect(changed.trials).toBe(4);
  });
});
