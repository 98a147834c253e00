import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Plan } from "../../src/core/plan/plan.ts";
import type { RunResult } from "../../src/core/report/result.ts";
import { folderOf, root, runCli } from "../support/cli.ts";

const config = {
  servers: {
    math: {
      transport: "mock",
      mock: {
        tools: {
          add: { inputSchema: { type: "object" }, responses: [{ match: { a: 1, b: 2 }, return: "3" }] },
        },
      },
    },
  },
  variants: { with: {}, without: { servers: { math: null } } },
  agents: {
    caller: {
      type: "scripted",
      plan: { sum: [{ call: "add", args: { a: 1, b: 2 } }, { say: "The sum is 3." }] },
    },
    guesser: { type: "scripted", plan: { sum: [{ say: "The sum is 3." }] } },
    program: {
      type: "command",
      command: "node",
      args: [
        join(root, "test/fixtures/agents/command-agent.ts"),
        JSON.stringify([["connect", "{mcpConfig}"], ["args"]]),
        "{prompt}",
      ],
    },
  },
  workflows: [{ name: "sum", steps: [{ user: "Add 1 and 2.", expectedState: "3" }], expectTools: ["add"] }],
  trials: 2,
  concurrency: 4,
};

test("3 agents, 2 sets of servers and 2 attempts are planned, run and reported apart", async () => {
  using folder = folderOf({ "mcp-eval.config.json": config });
  const run = await runCli(["run", "--reporter", "console", "--reporter", "json=result.json"], {
    cwd: folder.path,
  });
  expect(run.code, run.stderr).toBe(1);
  const result = JSON.parse(readFileSync(join(folder.path, "result.json"), "utf8")) as RunResult;
  const plan = JSON.parse(
    readFileSync(join(folder.path, ".mcpvals/runs", result.id, "plan.json"), "utf8"),
  ) as Plan;
  const cells = ["caller", "guesser", "program"].flatMap((agent) =>
    ["with", "without"].flatMap((variant) => [1, 2].map((attempt) => `${agent} ${variant} ${attempt}`)),
  );
  const cellOf = (trial: { agent: string | null; variant?: string; attempt: number }): string =>
    `${trial.agent} ${trial.variant} ${trial.attempt}`;
  expect(plan.trials.map(cellOf)).toEqual(cells);
  expect(result.trials.map(cellOf)).toEqual(cells);
  expect(result.trials.filter(({ verdict }) => verdict === "pass").map(cellOf)).toEqual([
    "caller with 1",
    "caller with 2",
  ]);
  const [first, , without] = result.trials;
  expect(first?.tools).toMatchObject({ serversUsed: ["math"], mcpToolCalls: 1 });
  expect(without?.tools).toMatchObject({ serversUsed: [], serversUnused: [], mcpToolCalls: 0 });
  expect(result.environment.variants).toMatchObject({
    with: { servers: { math: { transport: "mock" } } },
    without: { servers: {} },
  });
  expect(run.stdout).toMatch(/By task +caller · with +caller · without +guesser · with/);
  expect(run.stdout).toMatch(/^ {2}sum +2\/2 +0\/2 +0\/2 +0\/2 +0\/2 +0\/2$/m);
});

test("a variant can be asked for alone", async () => {
  using folder = folderOf({ "mcp-eval.config.json": config });
  const run = await runCli(["run", "--variant", "with", "--agent", "caller"], { cwd: folder.path });
  expect(run.code, run.stdout).toBe(0);
  expect(run.stdout).toContain("2 passed");
  const typo = await runCli(["run", "--variant", "wiht"], { cwd: folder.path });
  expect(typo.code).toBe(2);
  expect(typo.stderr).toContain('Did you mean "with"?');
});
