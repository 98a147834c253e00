import { tmpdir } from "node:os";
import { expect, it } from "vitest";
import type { Eval, SolutionAction, Task } from "../../src/core/formats/model.ts";
import type { Step } from "../../src/core/formats/step.ts";
import type { RunResult } from "../../src/core/report/result.ts";
import { run } from "../../src/run/run.ts";
import { fixtureSpec } from "../servers/support.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { portableTask } from "../support/portable.ts";

const solution: readonly SolutionAction[] = [
  { kind: "tool", id: "sum", tool: "add", args: { a: 2, b: 3 }, outputs: { value: "{text}" } },
  { kind: "say", text: "The sum is {steps.sum.outputs.value}." },
];

/** Looks at the server, and at what the agent said. */
const verify: readonly Step[] = [
  {
    type: "mcp",
    id: "page",
    request: { kind: "resource", uri: "fixture:pair" },
    expect: { schema: { required: ["contents"], properties: { contents: { minItems: 2 } } } },
    timeoutMs: 10_000,
  },
  { type: "llm", id: "said", contains: "The sum is 5.", timeoutMs: 10_000 },
];

/** Plays a task with one agent and a judge that says this. */
async function played(type: "oracle" | "null", verdict: string): Promise<RunResult["trials"]> {
  await using provider = await startFakeProvider(() => ({ text: verdict }));
  const task: Task = portableTask(
    { solution },
    { turns: [{ user: "Add 2 and 3." }], verify, servers: ["s"] },
  );
  const spec: Eval = {
    name: "e",
    servers: { s: fixtureSpec() },
    agents: [{ type, name: type }],
    tasks: [task],
    judge: { model: "openai/gpt-5", baseURL: provider.url, apiKey: "k", passThreshold: 0.8 },
    trials: 1,
    limits: { trialMs: 30_000, callMs: 10_000, modelMs: 10_000 },
    reporters: [],
  };
  const loaded = {
    eval: spec,
    secrets: [],
    env: { PATH: process.env["PATH"] ?? "" },
    overrides: {},
    dir: import.meta.dirname,
    extensionUses: new Map(),
  };
  const { result } = await run(loaded, { cwd: tmpdir(), output: false });
  return result.trials;
}

const verdict = (passed: boolean): string => JSON.stringify({ passed, reason: "So it is." });

it("the oracle passes, checked by the server, the schema and the judge", async () => {
  const [trial] = await played("oracle", verdict(true));
  expect(trial).toMatchObject({
    agent: "oracle",
    verdict: "pass",
    grades: [{ grader: "verify-steps", score: 1 }],
  });
});

it("a judge that says no fails the trial", async () => {
  expect(await played("oracle", verdict(false))).toMatchObject([{ verdict: "fail" }]);
});

it("a judge without a verdict leaves the trial in error", async () => {
  expect(await played("oracle", "I pass.")).toMatchObject([
    { verdict: "error", error: { code: "judge/no-verdict" } },
  ]);
});

it("the null agent fails, whatever the judge would say", async () => {
  const [trial] = await played("null", verdict(true));
  expect(trial?.verdict).toBe("fail");
  expect(trial?.grades[0]?.reason).toContain("the agent said nothing");
});
