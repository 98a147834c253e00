import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { baselineSchema } from "../../src/model/baseline.ts";
import { resultSchema } from "../../src/model/result.ts";
import { type HereOutcome, folderOf, runHere } from "../support/cli.ts";

/** A suite of two workflows; the call of bread fails as often as `fails` says. */
const config = (fails: number, { prompt = "where" } = {}): string => `name: shop
servers:
  shop:
    transport: mock
    mock: { tools: { find: { responses: [{ match: { item: milk }, return: shelf 4 }, { match: { item: bread }, return: shelf 2 }] } } }
    ${fails === 0 ? "" : `faults: [{ kind: error, tool: find, probability: ${fails} }]`}
trials: 10
agent:
  type: scripted
  plan:
    milk: [{ say: shelf 4 }]
    bread: [{ call: find, args: { item: bread } }, { say: Done. }]
workflows:
  - { name: milk, steps: [{ user: ${prompt}, expectedState: { contains: shelf 4, in: answer } }] }
  - { name: bread, steps: [{ user: where, expectedState: { contains: shelf 2, in: toolResult } }] }
`;

/** A folder with the suite, whose runs are started there. */
function suite(fails: number): Disposable & {
  readonly write: (file: string, text: string) => void;
  readonly read: (file: string) => string;
  readonly run: (...args: string[]) => Promise<HereOutcome>;
  readonly mcpvals: (...args: string[]) => Promise<HereOutcome>;
} {
  const folder = folderOf({ "a.yaml": config(fails) });
  const cwd = folder.path;
  return {
    write: (file, text) => writeFileSync(join(cwd, file), text),
    read: (file) => readFileSync(join(cwd, file), "utf8"),
    run: async (...args) => runHere(["run", "a.yaml", ...args], { cwd }),
    mcpvals: async (...args) => runHere(args, { cwd }),
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

const update = ["--baseline", "b.json", "--update-baseline"];

describe("run --baseline", () => {
  it("writes a line for each task, and compares later runs with it in every report", async () => {
    using here = suite(0);
    const written = await here.run(...update);
    expect([written.code, written.stderr]).toEqual([0, expect.stringContaining("b.json was written")]);
    const text = here.read("b.json");
    expect(baselineSchema.parse(JSON.parse(text)).tasks).toMatchObject([
      { task: "bread", passed: 10, scored: 10 },
      { task: "milk", passed: 10, scored: 10 },
    ]);
    expect(text.split("\n").filter((line) => line.startsWith('    {"task":'))).toHaveLength(2);

    const reports = ["--reporter", "console", "--reporter", "json=r.json", "--reporter", "markdown=r.md"];
    const run = await here.run("--baseline", "b.json", "--fail-on", "worse", "--margin", "40", ...reports);
    expect(run.code).toBe(0);
    expect(run.stdout).toContain("this run compared with b.json: 2 tasks");
    expect(here.read("r.md")).toContain("## this run compared with b.json: 2 tasks");
    const result = resultSchema.parse(JSON.parse(here.read("r.json")));
    expect(result).toMatchObject({
      verdict: "pass",
      comparison: {
        first: "b.json",
        failOn: { verdict: "worse", exitCode: 0 },
        compared: [{ name: "this run", verdict: "equivalent", tasksCompared: 2 }],
      },
    });
    // What is recorded says the same again, also where the file is gone.
    here.write("b.json", "{}");
    const shown = await here.mcpvals("show", "--json");
    expect(shown.code).toBe(0);
    expect((JSON.parse(shown.stdout) as typeof result).comparison).toEqual(result.comparison);
  });

  it("a run that is worse fails; it passes with failed trials where it is not, and reports alone change nothing", async () => {
    using here = suite(0.5);
    const first = await here.run(...update);
    expect(first.code).toBe(1);
    const baseline = here.read("b.json");
    // As bad as before: the baseline decides, and not that trials failed.
    const same = await here.run("--baseline", "b.json", "--fail-on", "worse", "--margin", "45");
    expect(same.code).toBe(0);
    expect(same.stdout).toMatch(/Passed, though \d trials failed: it is as good as b\.json/);
    expect((await here.run("--baseline", "b.json", "--fail-on", "not-better", "--margin", "45")).code).toBe(
      1,
    );
    expect((await here.run("--baseline", "b.json")).code).toBe(1);
    const undecided = await here.run("--baseline", "b.json", "--fail-on", "worse", "-q");
    expect([undecided.code, undecided.stdout]).toEqual([
      3,
      expect.stringMatching(/Incomplete: it is undecided whether it is better or worse than b\.json/),
    ]);
    expect(undecided.stdout).toContain("this run compared with b.json");
    expect((await here.run("--baseline", "b.json", "--fail-on", "undecided")).code).toBe(1);

    here.write("a.yaml", config(0));
    await here.run(...update);
    expect(here.read("b.json")).not.toBe(baseline);
    here.write("a.yaml", config(1));
    const worse = await here.run("--baseline", "b.json", "--fail-on", "worse");
    expect([worse.code, worse.stdout]).toEqual([
      1,
      expect.stringContaining("Failed: it is worse than b.json"),
    ]);
  });

  it("a failed trial of a task that is not compared fails the run as always", async () => {
    using here = suite(0);
    await here.run(...update);
    // Milk gets another prompt and an answer that does not pass.
    here.write("a.yaml", config(0, { prompt: "where is it" }).replace("say: shelf 4", "say: nowhere"));
    const { code, stdout } = await here.run("--baseline", "b.json", "--fail-on", "worse", "--margin", "50");
    expect(code).toBe(1);
    expect(stdout).toMatch(/milk {2}not compared: the task, or how it is graded, is not the same/);
    expect(stdout).toContain("1 of 2 tasks compared");
  });

  it("with --quiet, a run that passes says what was not compared, and nothing of what was", async () => {
    using here = suite(0);
    await here.run(...update);
    expect((await here.run("--quiet", "--baseline", "b.json")).stdout).not.toContain("compared");
    here.write("a.yaml", config(0, { prompt: "where is it" }));
    const { code, stdout } = await here.run("--quiet", "--baseline", "b.json");
    expect([code, stdout]).toEqual([0, expect.stringContaining("1 of 2 tasks compared")]);
  });

  it("has variants in the order of the run, of which the first is what others are compared with", async () => {
    using here = suite(0);
    here.write("a.yaml", `${config(0)}variants: { plain: {}, better: {} }\n`);
    await here.run(...update);
    expect(baselineSchema.parse(JSON.parse(here.read("b.json"))).tasks).toMatchObject([
      { task: "bread", variant: "plain" },
      { task: "bread", variant: "better" },
      { task: "milk", variant: "plain" },
      { task: "milk", variant: "better" },
    ]);
    expect((await here.mcpvals("compare", "b.json")).stdout).toContain("better compared with plain");
  });

  it("is not written from a run without all of its evidence, or of some tasks only", async () => {
    using here = suite(0);
    here.write("b.json", "before");
    const variants =
      "variants: { fails: {}, broken: { servers: { shop: { transport: stdio, command: node, args: [nothing.js] } } } }\n";
    here.write("a.yaml", config(1).replace("trials: 10", `trials: 1\n${variants}`));
    const broken = await here.run(...update);
    expect([broken.code, broken.stderr]).toEqual([
      1,
      expect.stringMatching(/b\.json: the baseline was not written: 2 trials of the run have no verdict/),
    ]);
    here.write("a.yaml", `${config(0)}thresholds: { lowerBound: 0.95 }\n`);
    const open = await here.run(...update);
    expect([open.code, open.stderr]).toEqual([
      3,
      expect.stringMatching(/the baseline was not written: the run is incomplete\. Incomplete: lowerBound/),
    ]);
    here.write("a.yaml", config(0.5));
    await here.run();
    const retried = await here.run("--last-failed", ...update);
    expect([retried.code, retried.stderr]).toEqual([2, expect.stringContaining("--last-failed")]);
    expect(here.read("b.json")).toBe("before");
  });

  it("is a side of compare, also as YAML; what it was made of is not compared with itself", async () => {
    using here = suite(0);
    await here.run(...update);
    const refused = await here.mcpvals("compare", "b.json", "latest");
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining("b.json and latest have the same trials"),
    ]);
    here.write("c.yaml", here.read("b.json"));
    await here.run();
    const compared = await here.mcpvals("compare", "c.yaml", "latest", "--format", "json");
    expect(JSON.parse(compared.stdout)).toMatchObject({
      first: "c.yaml",
      compared: [{ name: "latest", tasks: [{ first: { passed: 10, scored: 10 } }, {}] }],
    });
  });

  it.each<[string, string, RegExp]>([
    ["no JSON", "{", /b\.json cannot be read as JSON/],
    [
      "another document",
      '{"schema":"mcpvals.result/1"}',
      /b\.json: error schema must be "mcpvals\.baseline\/1"/,
    ],
    ["a newer format", '{"schema":"mcpvals.baseline/2"}', /schema must be "mcpvals\.baseline\/1"/],
    ["a task without counts", '"tasks":[{"task":"milk"}]', /missing key "tasks\[0\]\.passed"|tasks\[0\]/],
    [
      "more passes than trials",
      '"tasks":[{"task":"milk","passed":3,"scored":2}]',
      /tasks\[0\]\.passed must be at most 2/,
    ],
    [
      "a task twice",
      '"tasks":[{"task":"milk","passed":1,"scored":2},{"task":"milk","passed":1,"scored":2}]',
      /tasks\[1\] is there twice/,
    ],
    ["very many trials", '"tasks":[{"task":"milk","passed":1,"scored":1e15}]', /tasks\[0\]\.scored must be/],
    [
      "other variants",
      '"tasks":[{"task":"milk","variant":"x","passed":1,"scored":1},{"task":"milk","variant":"y","passed":1,"scored":1}]',
      /have no variant in common: x, y; none/,
    ],
  ])("refuses %s before anything starts", async (_, content, expected) => {
    using here = suite(0);
    const whole = content.startsWith("{")
      ? content
      : `{"schema":"mcpvals.baseline/1","mcpvals":"0.1.0","name":"shop","run":"r",${content}}`;
    here.write("b.json", whole);
    const { code, stderr, stdout } = await here.run("--baseline", "b.json");
    expect([code, stderr, stdout]).toEqual([2, expect.stringMatching(expected), ""]);
  });

  it.each<[string[], RegExp]>([
    [["--baseline", "nothing.json"], /there is no baseline nothing\.json[^]*--update-baseline/],
    [["--update-baseline"], /--update-baseline is for --baseline/],
    [["--fail-on", "worse"], /--fail-on is for --baseline/],
    [["--margin", "5"], /--margin is for --until decided, or --baseline/],
    [
      ["--baseline", "b.json", "--until", "decided"],
      /'--baseline <file>' cannot be used with option '--until/,
    ],
    [[...update, "--fail-on", "worse"], /cannot be used with option '--fail-on/],
  ])("refuses %j", async (args, expected) => {
    using here = suite(0);
    const { code, stderr } = await here.run(...args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(expected)]);
  });
});
