import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { displayWidth } from "../../src/base/columns.ts";
import { comparisonSchema } from "../../src/model/comparison.ts";
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
      /^new compared with old: 1 task\n\n {2}better {6}On these tasks new is better than old/,
    );
    expect(variants.stdout).toContain("old  0 % (0 % to 39 %) on these tasks");
    expect(variants.stdout).toContain("milk  0/6 → 6/6");

    await runHere(["run", "a.yaml"], { cwd });
    const runs = await runHere(
      ["compare", "first.json", "latest", "--format", "json", "--margin", "50", "--fail-on", "worse"],
      {
        cwd,
      },
    );
    const document = JSON.parse(runs.stdout) as object;
    expect(comparisonSchema.safeParse(document).error).toBeUndefined();
    expect(document).toMatchObject({
      schema: "mcpvals.comparison/1",
      first: "first.json",
      question: "these tasks",
      margin: 0.5,
      failOn: { verdict: "worse", exitCode: 0 },
      compared: [
        {
          name: "latest",
          verdict: "equivalent",
          notes: [],
          statements: [
            { question: "these tasks", metric: "pass rate", verdict: "equivalent" },
            { question: "tasks like these", metric: "pass rate", verdict: "undecided" },
            { metric: "duration" },
          ],
          tasksCompared: 1,
          theseTasks: { value: 0, p: 1 },
          tasks: [
            { task: "milk", difference: 0, first: { passed: 0, scored: 6, unscored: 0, leftOut: 0 } },
            { task: "milk", difference: 0, second: { passed: 6, scored: 6 } },
          ],
        },
      ],
    });
  });

  it("gives the exit code that --fail-on asks for; undecided is never 0, and without it a comparison is a report", async () => {
    using folder = folderOf({ "a.yaml": config("a", "Done.") });
    const cwd = folder.path;
    await runHere(["run", "a.yaml", "--reporter", "json=a.json"], { cwd });
    await runHere(["run", "a.yaml", "--reporter", "json=b.json"], { cwd });
    const codeOf = async (...args: string[]): Promise<number | null> =>
      (await runHere(["compare", ...args], { cwd })).code;
    expect(await codeOf("latest", "--by", "variant", "--fail-on", "worse")).toBe(0);
    expect(await codeOf("a.json", "b.json")).toBe(0);
    expect(await codeOf("a.json", "b.json", "--fail-on", "worse")).toBe(3);
    expect(await codeOf("a.json", "b.json", "--fail-on", "undecided")).toBe(1);
    expect(await codeOf("a.json", "b.json", "--fail-on", "worse", "--margin", "50")).toBe(0);
    expect(await codeOf("a.json", "b.json", "--fail-on", "not-better", "--margin", "50")).toBe(1);
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
    expect(stdout).toMatch(/milk \(old\) {2}not compared: the task, or how it is graded, is not the\s+same/);
  });

  it("knows of a result file too that a grader or a prompt changed; of one without fingerprints it says that it cannot", async () => {
    using folder = folderOf({ "a.yaml": config("a", "Done.") });
    const cwd = folder.path;
    await runHere(["run", "a.yaml", "--reporter", "json=a.json"], { cwd });
    writeFileSync(join(cwd, "a.yaml"), config("a", "Done.").replace("contains: shelf 4", "contains: shelf"));
    await runHere(["run", "a.yaml", "--reporter", "json=b.json"], { cwd });
    const changed = await runHere(["compare", "a.json", "b.json"], { cwd });
    expect(changed.stdout).toContain("b.json compared with a.json: 0 of 1 task compared");
    // The run and its file say the same of the task, wherever the file is.
    expect((await runHere(["compare", "a.json", "latest"], { cwd })).stdout).toContain(
      "0 of 1 task compared",
    );
    const { fingerprints: _, ...older } = JSON.parse(readFileSync(join(cwd, "a.json"), "utf8")) as Record<
      string,
      unknown
    >;
    writeFileSync(join(cwd, "older.json"), JSON.stringify(older));
    const unknown = await runHere(["compare", "older.json", "b.json"], { cwd });
    expect(unknown.stdout).toMatch(/older\.json has no fingerprints of tasks[^]*cannot\s+be\s+checked\./);
  });

  it("trials without a verdict do not help, and a run that was interrupted is named", async () => {
    using folder = folderOf({ "a.yaml": config("a", "Done.") });
    const cwd = folder.path;
    await runHere(["run", "a.yaml", "--variant", "old", "--reporter", "json=old.json"], { cwd });
    await runHere(["run", "a.yaml", "--variant", "new", "--reporter", "json=new.json"], { cwd });
    const result = JSON.parse(readFileSync(join(cwd, "new.json"), "utf8")) as {
      trials: readonly Record<string, unknown>[];
    };
    const trials = result.trials.map((trial, index) =>
      index < 3
        ? trial
        : {
            ...trial,
            verdict: "skip",
            error: { code: "run/interrupted", kind: "interrupted", message: "x" },
          },
    );
    writeFileSync(join(cwd, "cut.json"), JSON.stringify({ ...result, verdict: "interrupted", trials }));
    expect((await runHere(["compare", "old.json", "new.json", "--fail-on", "worse"], { cwd })).code).toBe(0);
    const cut = await runHere(["compare", "old.json", "cut.json", "--fail-on", "worse"], { cwd });
    expect(cut.code).toBe(3);
    expect(cut.stdout).toContain("cut.json was interrupted: 3 trials of cut.json have no verdict.");
  });

  it("lists the tools whose tests pass more or less often, also compared with a baseline", async () => {
    const tools = (broken: string): string => `servers:
  shop:
    transport: mock
    mock: { tools: { ${["find", "buy", "look"].map((name) => `${name}: { responses: [{ return: "${name === broken ? "no" : "yes"}" }] }`).join(", ")} } }
trials: 8
toolHealthSuites:
  - name: s
    server: shop
    tests: [${["find", "buy", "look"].map((name) => `{ name: ${name}, expectedResult: "yes" }`).join(", ")}]
`;
    using folder = folderOf({ "a.yaml": tools("find") });
    const cwd = folder.path;
    await runHere(["run", "a.yaml", "--baseline", "b.json", "--update-baseline"], { cwd });
    writeFileSync(join(cwd, "a.yaml"), tools("buy"));
    await runHere(["run", "a.yaml"], { cwd });
    const { stdout } = await runHere(["compare", "b.json", "latest", "--format", "json"], { cwd });
    const document = JSON.parse(stdout) as object;
    expect(comparisonSchema.safeParse(document).error).toBeUndefined();
    expect(document).toMatchObject({
      compared: [
        {
          verdict: "undecided",
          tools: [
            { tool: "buy", difference: -1, verdict: "worse" },
            { tool: "find", difference: 1, verdict: "better" },
            { tool: "look", difference: 0, p: 1, adjustedP: 1, verdict: "undecided" },
          ],
        },
      ],
    });
    const text = (await runHere(["compare", "b.json", "latest"], { cwd })).stdout;
    expect(text).toContain(
      "  buy  worse by 100 points (p under 0.001)\n  find  better by 100 points (p under 0.001)\n",
    );
    expect(text).not.toContain("  look  ");
  });

  it("says the same in Markdown, safe to be part of a page", async () => {
    using folder = folderOf({ "a.yaml": config("a", "Done.").replaceAll("milk", "'mi|lk <b>`x`'") });
    const cwd = folder.path;
    await runHere(["run", "a.yaml"], { cwd });
    const { stdout } = await runHere(["compare", "latest", "--format", "markdown"], { cwd });
    expect(stdout).toMatch(
      /^## new compared with old: 1 task\n\n- \*\*better\*\*: On these tasks new is better than old: /,
    );
    expect(stdout).toContain(
      "| pass rate | on these tasks (95 % interval) | for tasks like these |\n| --- | --- | --- |\n| old | 0 % (0 % to 39 %) | - |",
    );
    expect(stdout).toContain(String.raw`| mi\|lk \<b\>\`x\` | 0/6 | 6/6 |`);
  });

  it("wraps at the width of the terminal, with names of any script in columns", async () => {
    const wide = config("a", "Done.").replace("  old:", "  牛乳の古い方:");
    using folder = folderOf({ "a.yaml": wide });
    const cwd = folder.path;
    await runHere(["run", "a.yaml"], { cwd });
    const { stdout } = await runHere(["compare", "latest"], { cwd });
    expect(stdout).not.toContain("\n\n\n");
    const rates = stdout.split("\n").filter((line) => line.includes("on these tasks") && line.includes("%"));
    const columns = rates.map((line) => displayWidth(line.slice(0, line.search(/\d/))));
    expect(new Set(columns.slice(-2)).size).toBe(1);
  });

  it("refuses a result file that is malformed, with the file and the place", async () => {
    using folder = folderOf({ "a.yaml": config("a", "Done.") });
    const cwd = folder.path;
    await runHere(["run", "a.yaml", "--reporter", "json=a.json"], { cwd });
    const result = JSON.parse(readFileSync(join(cwd, "a.json"), "utf8")) as {
      trials: readonly Record<string, unknown>[];
    };
    const [first = {}, ...rest] = result.trials;
    const wrong: readonly (readonly [unknown, RegExp])[] = [
      [
        { ...result, trials: [{ ...first, verdict: "maybe" }, ...rest] },
        /bad\.json: error trials\[0\]\.verdict must be "pass"/,
      ],
      [
        { ...result, trials: [first, ...rest, first] },
        /bad\.json: error trials\[12\]\.id is the id of another trial too: t1/,
      ],
      [{ ...result, trials: 3 }, /bad\.json: error trials must be a list/],
      [[], /bad\.json: error the document must be an object/],
      [{ ...result, schema: "mcpvals.result/2" }, /schema must be "mcpvals\.result\/1"/],
    ];
    for (const [document, expected] of wrong) {
      writeFileSync(join(cwd, "bad.json"), JSON.stringify(document));
      const { code, stderr } = await runHere(["compare", "a.json", "bad.json"], { cwd });
      expect([code, stderr]).toEqual([2, expect.stringMatching(expected)]);
    }
    writeFileSync(join(cwd, "newer.json"), JSON.stringify({ ...result, id: "other", somethingNew: 1 }));
    expect((await runHere(["compare", "a.json", "newer.json"], { cwd })).code).toBe(0);
  });

  it.each<[string[], RegExp]>([
    [["latest", "latest"], /latest and latest have the same trials/],
    [["latest", "latest", "--margin", "51"], /Give a number of points above 0, at most 50/],
    [["nowhere", "latest"], /no single run matches "nowhere"/],
    [["not.json", "latest"], /not\.json cannot be read as JSON/],
    [["other.json", "latest"], /other\.json: error missing key "schema"/],
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

it("says that the agents of two runs are not the same, also of a baseline", async () => {
  const agent = (home: string): string =>
    JSON.stringify({
      servers: { none: { transport: "mock", mock: { tools: { find: { responses: [{ return: 1 }] } } } } },
      variants: { alone: { servers: { none: null } } },
      agents: { it: { type: "command", command: "echo", args: ["{prompt}"], home } },
      workflows: [{ name: "say", steps: [{ user: "hello", expectedState: "hello" }] }],
    });
  using folder = folderOf({ "a.json": agent("trial"), "b.json": agent("user") });
  const mcpvals = (...args: string[]) => runHere(args, { cwd: folder.path });
  await mcpvals("run", "a.json", "--baseline", "base.json", "--update-baseline");
  const second = await mcpvals("run", "b.json", "--baseline", "base.json");
  const note = "are not the same (it): home trial and user.";
  expect(second.stdout.replaceAll(/\s+/g, " ")).toContain("agent it (command, in the home of the user)");
  expect(second.stdout.replaceAll(/\s+/g, " ")).toContain(note);
  const [later = "", earlier = ""] = readdirSync(join(folder.path, ".mcpvals/runs")).toSorted().toReversed();
  const compared = await mcpvals("compare", earlier, later);
  expect(compared.stdout.replaceAll(/\s+/g, " ")).toContain(note);
});
