import { countFindings } from "../../src/model/alike-findings.ts";
import { clientTable } from "../../src/check/client-table.ts";
import { stripVTControlCharacters } from "node:util";
import { expect, it } from "vitest";
import { findingsOf } from "../../src/model/finding.ts";
import { countWarnings } from "../../src/report/result.ts";
import { consoleReporter } from "../../src/report/console.ts";
import { reporters } from "../../src/report/reporters.ts";
import { checkedRun } from "./runs.ts";
import { finding, grade, play, type SampleRun } from "./samples.ts";
import { type CaptureOptions, captureOutput } from "./screen.ts";

async function printed(run: SampleRun, options: CaptureOptions = {}): Promise<string> {
  const output = captureOutput(options);
  await play(run, consoleReporter(output));
  return output.text();
}

it("lists the parts of a check in the plan's order, whichever ends first", async () => {
  const run = checkedRun();
  const listed = async (trials: SampleRun["trials"]): Promise<readonly string[]> =>
    (await printed({ ...run, trials })).split("\n").filter((line) => /^ {2}[✓✗] \w+ +\d/.test(line));
  const inOrder = await listed(run.trials);
  expect(inOrder).toHaveLength(2);
  expect(await listed(run.trials.toReversed())).toEqual(inOrder);
});

it("a check: the server, findings by severity and place, equal ones once, clients, what was not called", async () => {
  expect(await printed(checkedRun())).toMatchInlineSnapshot(`
    "mcpvals 0.1.0  check
    notes-server 1.2.0 · MCP 2025-11-25 · 5 tools, 1 resource, 0 prompts

      notes
      ✗ definitions     120 ms  2 errors, 2 warnings, 1 info
      ✗ calls           900 ms  2 errors

    Errors

      the server
      ✗ stdout has something else than MCP messages  protocol/stdout · t1 #1
        a line is "started \\x1b[31m"
        Write logs to stderr.

      tool search
      ✗ A $ref points to nothing  schema/dangling-ref · t1 #1
        parameter user: nothing is at "#/$defs/User"
        Point it to a schema that the same document has, for example under $defs, or write the schema in its place.

      tool read
      ✗ A call ends the server  call/crash · t2 #4
        exit code 7 after {}
        Catch errors in the tool, and answer with isError: true.

    Warnings

      tool notes.read
      ! Clients refuse a tool's name for its characters  client/name-characters · t1 #1
        the name has a dot
        Use letters, digits, underscores and hyphens only.

      tool search
      ! A parameter has no type  schema/untyped-parameter · t1 #1
        parameter q: it has no type, enum or const
        Give it a type, an enum or a const.

    Info

      several tools
      · OpenAI's strict mode does not take the schema  client/openai-strict
        search, read, list, delete_note: additionalProperties is not false

    Clients         Claude   Cursor   VS Code  Gemini   OpenAI   Codex
      search        invalid  invalid  invalid  refused  invalid  changed
      notes.read    refused  ok       ok       ok       ok       refused

      3 errors, 2 warnings, 1 info · 1.1 s
      5 tools, 4 called, 1 not: delete_note (it is not annotated readOnlyHint: true)

      FAIL   exit 1
      trace .mcpvals/runs/20261121-101500-4f2a · npx mcpvals show 20261121-101500-4f2a --trial t1
    "
  `);
});

it("says why a run without a failed trial failed", async () => {
  const run = checkedRun({ maxWarnings: 1 });
  const trials = run.end.result.trials.map((trial) => ({
    ...trial,
    verdict: "pass" as const,
    grades: trial.grades.map(({ findings = [], ...grade }) => ({
      ...grade,
      findings: findings.filter(({ severity }) => severity !== "error"),
    })),
  }));
  const result = { ...run.end.result, trials, summary: { ...run.end.result.summary, pass: 2, fail: 0 } };
  expect(await printed({ ...run, end: { ...run.end, result } })).toContain(
    " FAIL   exit 1\n  Failed: 2 warnings; --max-warnings allows 1.\n",
  );
});

it.each(["console", "github", "markdown"] as const)(
  "names the server in %s where several are checked, also if only one has findings",
  async (name) => {
    const { end, ...run } = checkedRun();
    const quiet = end.result.trials.map((trial) => ({ ...trial, suite: "mail", grades: [] }));
    const result = { ...end.result, trials: [...end.result.trials, ...quiet] };
    const output = captureOutput();
    await play({ ...run, end: { ...end, result } }, reporters[name](output));
    expect(output.text()).toMatch(/(?:server notes, tool search|notes › tool search)/);
    expect(output.text()).not.toMatch(/^ {2}the server$|: the server: |\| the server \|/m);
  },
);

it("fits a narrow terminal", async () => {
  const text = await printed(checkedRun(), { isTerminal: true, columns: 80 });
  const lines = stripVTControlCharacters(text).split("\n");
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
});

it("lists clients where the terminal is too narrow for a table", async () => {
  const text = await printed(checkedRun(), { isTerminal: true, columns: 60 });
  expect(text).toMatch(
    /^Clients\n {2}search: Claude invalid, .*\n {4}Gemini refused, .*\n {2}notes\.read: Claude refused, Codex refused$/m,
  );
});

it("counts what two trials found once", () => {
  const { trials } = checkedRun();
  expect(
    findingsOf(trials)
      .map(({ code, trial }) => `${trial} ${code}`)
      .slice(0, 4),
  ).toEqual(["t1 protocol/stdout", "t1 schema/dangling-ref", "t2 call/crash", "t1 client/name-characters"]);
  expect(countWarnings([...trials, { id: "t3", grades: [], warnings: ["slow", "slow"] }])).toBe(3);
});

it("counts what is said in the same words of several tools once, also against --max-warnings", () => {
  const found = ["a.b", "c.d"].map((tool) =>
    finding("client/name-characters", { tool }, "the name has a dot"),
  );
  const other = finding("client/name-characters", { tool: "e.f" }, "the name has two dots");
  expect(countFindings([...found, other])).toBe("2 warnings");
  expect(
    countWarnings([{ id: "t1", grades: [{ ...grade("findings", 1, ""), findings: [...found, other] }] }]),
  ).toBe(2);
});

it.each(["console", "sarif", "junit", "markdown", "github"] as const)(
  "%s has what is alike once, with all its tools",
  async (name) => {
    const run = checkedRun();
    const tools = ["alpha", "beta"];
    const crash = tools.map((tool) => finding("call/crash", { tool }, "exit code 7 after {}"));
    const trials = run.end.result.trials.map((trial) => ({
      ...trial,
      grades: [{ ...grade("findings", 0, ""), findings: crash }],
    }));
    const output = captureOutput();
    await play(
      { ...run, trials, end: { ...run.end, result: { ...run.end.result, trials } } },
      reporters[name](output),
    );
    const text = output.text();
    // Each trial of JUnit has its own.
    expect(text.split("exit code 7").length - 1).toBe(name === "junit" ? 2 : 1);
    for (const tool of tools) expect(text).toContain(name === "console" ? tool : `tool ${tool}`);
  },
);

it("tells refused, changed and invalid apart, and leaves strict modes out of the table", () => {
  expect(clientTable(findingsOf(checkedRun().trials), false)).toEqual([
    {
      tool: "search",
      effects: {
        Claude: "invalid",
        Cursor: "invalid",
        "VS Code": "invalid",
        Gemini: "refused",
        OpenAI: "invalid",
        Codex: "changed",
      },
    },
    {
      tool: "notes.read",
      effects: {
        Claude: "refused",
        Cursor: "ok",
        "VS Code": "ok",
        Gemini: "ok",
        OpenAI: "ok",
        Codex: "refused",
      },
    },
  ]);
});
