import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { folderOf, runHere } from "../support/cli.ts";

/** A workflow with two variants: of the first, `broken` of the plan's tasks never pass. */
const config = (name: string, answer: string): string => `name: ${name}
servers:
  shop: { transport: mock, mock: { tools: { find: { responses: [{ return: shelf 4 }] } } } }
variants:
  old: { servers: { shop: { faults: [{ kind: error }] } } }
  new: {}
trials: 6
agent: { type: scripted, plan: { milk: [{ call: find, args: {} }, { say: ${answer} }] } }
workflows: [{ name: milk, steps: [{ user: where, expectedState: { contains: shelf 4, in: toolResult } }] }]
`;

describe("mcpvals compare", () => {
  it("compares the variants of a run, and two runs by their ids or result files", async () => {
    using folder = folderOf({ "a.yaml": config("a", "Done.") });
    const cwd = folder.path;
    await runHere(["run", "a.yaml", "--reporter", "json=first.json"], { cwd });
    const variants = await runHere(["compare", "latest"], { cwd });
    expect(variants).toMatchObject({ code: 0, stderr: "" });
    expect(variants.stdout).toMatch(
      /^new compared with old\n\n {2}better {6}On these tasks new is better than old/,
    );
    expect(variants.stdout).toContain("old  0 % (0 % to 39 %) on these tasks");
    expect(variants.stdout).toContain("milk  0/6 → 6/6");

    await runHere(["run", "a.yaml"], { cwd });
    const runs = await runHere(["compare", "first.json", "latest", "--format", "json", "--margin", "60"], {
      cwd,
    });
    const document = JSON.parse(runs.stdout) as object;
    expect(document).toMatchObject({
      schema: "mcpvals.comparison/1",
      first: "first.json",
      margin: 0.6,
      compared: [
        {
          statements: [
            { metric: "pass rate", verdict: "equivalent" },
            { metric: "pass rate of tasks like these", verdict: "undecided" },
            { metric: "duration" },
          ],
          theseTasks: { value: 0, p: 1 },
          tasks: [
            { task: "milk", difference: 0, first: { passed: 0, scored: 6, unscored: 0 } },
            { task: "milk", difference: 0, second: { passed: 6, scored: 6 } },
          ],
        },
      ],
    });
  });

  it("gives the exit code that --fail-on asks for; undecided is never 0", async () => {
    using folder = folderOf({ "a.yaml": config("a", "Done.") });
    const cwd = folder.path;
    await runHere(["run", "a.yaml"], { cwd });
    const codeOf = async (...args: string[]): Promise<number | null> =>
      (await runHere(["compare", ...args], { cwd })).code;
    expect(await codeOf("latest", "--by", "variant", "--fail-on", "worse")).toBe(0);
    expect(await codeOf("latest", "latest", "--fail-on", "worse")).toBe(3);
    expect(await codeOf("latest", "latest", "--fail-on", "undecided")).toBe(1);
    expect(await codeOf("latest", "latest", "--fail-on", "worse", "--margin", "60")).toBe(0);
    expect(await codeOf("latest", "latest", "--fail-on", "not-better", "--margin", "60")).toBe(1);
    expect(await codeOf("latest", "--fail-on", "worse", "--about", "tasks-like-these")).toBe(3);
  });

  it("does not compare a task that is not the same on both sides", async () => {
    using folder = folderOf({ "a.yaml": config("a", "Done.") });
    const cwd = folder.path;
    await runHere(["run", "a.yaml"], { cwd });
    writeFileSync(join(cwd, "a.yaml"), config("a", "Done.").replace("user: where", "user: where is it"));
    const first = JSON.parse((await runHere(["show", "--json"], { cwd })).stdout) as { id: string };
    await runHere(["run", "a.yaml"], { cwd });
    const { stdout, code } = await runHere(["compare", first.id, "latest", "--fail-on", "worse"], { cwd });
    expect(code).toBe(3);
    expect(stdout).toContain("They have no task in common that both measured, so nothing can be compared.");
    expect(stdout).toContain("milk (old)  not compared: the task, or how it is graded, is not the same");
  });

  it.each<[string[], RegExp]>([
    [["nowhere", "latest"], /no single run matches "nowhere"/],
    [["not.json", "latest"], /not\.json cannot be read as JSON/],
    [["other.json", "latest"], /other\.json is not a result of mcpvals/],
    [["latest", "latest", "--by", "agent"], /--by is for one run/],
    [["latest", "--by", "agent"], /there is nothing to compare with/],
    [["latest", "--margin", "0"], /Give a number of points above 0/],
  ])("refuses %j", async (args, expected) => {
    using folder = folderOf({ "a.yaml": config("a", "Done."), "not.json": "{", "other.json": "{}" });
    await runHere(["run", "a.yaml"], { cwd: folder.path });
    const { code, stderr } = await runHere(["compare", ...args], { cwd: folder.path });
    expect(code).toBe(2);
    expect(stderr).toMatch(expected);
  });
});
