import { cpSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, root, runHere } from "../support/cli.ts";

/** Runs a copy of the example; its exit code, and the score of each grade by task. */
async function run(...flags: readonly string[]) {
  using folder = folderOf({});
  cpSync(join(root, "examples/mcp-eval"), folder.path, { recursive: true });
  const { code, stdout } = await runHere(["run", "eval.yaml", "--reporter", "json", ...flags], {
    cwd: folder.path,
  });
  const { trials, gates } = JSON.parse(stdout) as RunResult;
  const tasks = trials.map(({ task, verdict, score, grades }) => {
    const scores = grades.flatMap((grade) => (grade.score === null ? [] : [[grade.grader, grade.score]]));
    return [task, { verdict, score, ...(Object.fromEntries(scores) as Record<string, number>) }] as const;
  });
  return { code, gates, tasks: Object.fromEntries(tasks) };
}

it("passes offline, with exact scores", async () => {
  const { code, gates, tasks } = await run();
  expect(code).toBe(0);
  expect(tasks).toEqual({
    refund: {
      verdict: "pass",
      score: 1,
      "stays-calm": 1,
      "two-calls": 1,
      "expected.output": 1,
      "refunds-the-price": 1,
      "looks-first": 1,
    },
    "wrong-number": {
      verdict: "pass",
      score: 3 / 3.5,
      "stays-calm": 1,
      "two-calls": 0,
      recovers: 1,
      "answers-as-json": 1,
    },
  });
  expect(gates).toMatchObject([
    { name: "passRate", verdict: "pass", value: 1 },
    { name: "score", verdict: "pass", value: expect.closeTo(13 / 14) as number },
  ]);
});

it("fails for an agent that acts before it looks and gives up after an error", async () => {
  const { code, gates, tasks } = await run("--agent", "hasty");
  expect(code).toBe(1);
  expect(tasks).toEqual({
    refund: {
      verdict: "fail",
      score: 3 / 4.5,
      "stays-calm": 1,
      "two-calls": 1,
      "expected.output": 1,
      "refunds-the-price": 0,
      "looks-first": 0.5,
    },
    "wrong-number": {
      verdict: "fail",
      score: expect.closeTo((2 / 3 + 0.5 + 1 / 3) / 3.5) as number,
      "stays-calm": 2 / 3,
      "two-calls": 1,
      recovers: expect.closeTo(1 / 3) as number,
      "answers-as-json": 0,
    },
  });
  expect(gates?.map(({ verdict }) => verdict)).toEqual(["fail", "fail"]);
});

it("fails for an agent that does nothing", async () => {
  const { code, tasks } = await run("--agent", "null");
  expect([code, Object.values(tasks).map(({ verdict, score }) => [verdict, score])]).toEqual([
    1,
    [
      ["fail", 0],
      ["fail", 0],
    ],
  ]);
});
