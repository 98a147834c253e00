import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv } from "ajv";
import formats from "ajv-formats";
import { describe, expect, it } from "vitest";
import { validateXML } from "xmllint-wasm";
import type { ReporterName } from "../../src/model/reporter.ts";
import type { TrialResult } from "../../src/model/result.ts";
import { reporters } from "../../src/report/reporters.ts";
import { brokenRun, checkedRun, emptyRun, failingRun, passingRun, variedRun } from "./runs.ts";
import {
  brokenTrial,
  grade,
  play,
  sampleRun,
  type SampleRun,
  scripted,
  toolTest,
  trialOf,
  workflow,
} from "./samples.ts";
import { captureOutput } from "./screen.ts";

async function written(name: ReporterName, run: SampleRun): Promise<string> {
  const output = captureOutput();
  await play(run, reporters[name](output));
  return output.text();
}

function fixture(name: string): string {
  return readFileSync(join(import.meta.dirname, "../fixtures", name), "utf8");
}

describe("sarif", () => {
  const ajv = new Ajv({ strict: false, allErrors: true, unicodeRegExp: false });
  formats.default(ajv);
  const isValid = ajv.compile(JSON.parse(fixture("sarif-2.1.0.schema.json")) as object);

  it.each([
    ["a check", checkedRun()],
    ["failures", failingRun()],
    ["errors", brokenRun()],
    ["many agents", variedRun()],
    ["nothing", emptyRun()],
  ])("is valid for %s", async (_, run) => {
    const document: unknown = JSON.parse(await written("sarif", run));
    isValid(document);
    expect(isValid.errors).toBe(null);
  });

  it("has the rules with their help, and the same fingerprint in the next run", async () => {
    const document = await written("sarif", checkedRun());
    const { runs } = JSON.parse(document) as {
      runs: { tool: { driver: { rules: { id: string; help: { text: string } }[] } }; results: object[] }[];
    };
    const rules = runs[0]?.tool.driver.rules ?? [];
    expect(rules.map(({ id }) => id)).toContain("schema/untyped-parameter");
    expect(rules.every(({ help }) => help.text.includes("Source: "))).toBe(true);
    expect(runs[0]?.results[1]).toMatchObject({
      ruleId: "schema/dangling-ref",
      level: "error",
      locations: [
        {
          physicalLocation: { artifactLocation: { uri: "notes" } },
          logicalLocations: [{ fullyQualifiedName: "notes/tool:search/user" }],
        },
      ],
      partialFingerprints: { "mcpvals/v1": '["schema/dangling-ref","notes","tool:search","user",""]' },
    });
  });
});

describe("junit", () => {
  it("has a failure for each error that a trial of a check found", async () => {
    const xml = await written("junit", checkedRun());
    const { errors } = await validateXML({ xml, schema: fixture("junit.xsd") });
    expect(errors).toEqual([]);
    expect([...xml.matchAll(/<failure type="(.+?)"/g)].map(([, type]) => type)).toEqual([
      "protocol/stdout",
      "schema/dangling-ref",
      "protocol/stdout",
      "call/crash",
    ]);
  });
});

describe("a run with several attempts", () => {
  it("has one annotation for each task, agent and variant, with its rate", async () => {
    const lines = (await written("github", variedRun())).split("\n").filter((line) => line.startsWith("::"));
    expect(lines.map((line) => line.slice(0, 90))).toEqual([
      expect.stringContaining("title=finds the cheapest · claude::1/3 passed; attempt 2: "),
      expect.stringContaining("title=finds the cheapest · scripted::0/3 passed; attempt"),
      expect.stringContaining("title=日本語のタスク 🎉 · claude::2/2 passed, 1 not judged"),
      expect.stringContaining("::error title=mcpvals::FAIL"),
    ]);
  });

  it("has a table of rates first in Markdown, and one section for each task, agent and variant", async () => {
    const text = await written("markdown", variedRun());
    const table = [
      "| task | agent, variant | passed | rate (95 % interval) | time | tokens |  |",
      "| --- | --- | --- | --- | --- | --- | --- |",
      "| finds the cheapest | claude | 1/3 | 33 % (6 to 79) | 8.2 s | 12,340 tokens | flaky |",
      "| finds the cheapest | scripted | 0/3 | 0 % (0 to 56) | 12 ms |  |  |",
      "| 日本語のタスク 🎉 | claude | 2/2, 1 not judged | 100 % (34 to 100) | 8.2 s | 12,340 tokens |  |",
      "| books a flight | claude | 3/3 | 100 % (44 to 100) | 8.2 s | 12,340 tokens |  |",
    ];
    expect(text).toContain(table.join("\n"));
    expect(text.indexOf("| task |")).toBeLessThan(text.indexOf("## Failed"));
    expect([...text.matchAll(/^### (.*)$/gm)].map(([, title]) => title)).toEqual([
      "finds the cheapest · claude (1/3 passed; t8)",
      "finds the cheapest · scripted (0/3 passed; t10)",
      "日本語のタスク 🎉 · claude (2/2 passed, 1 not judged; t14)",
    ]);
  });
});

it("says on the console where a failed task stands", async () => {
  const place = { file: "mcp-eval.config.yaml", line: 12 };
  const [wrong, gone] = [toolTest("add"), toolTest("echo")].map((task) => ({ ...task, location: place }));
  if (wrong === undefined || gone === undefined) throw new Error("there are two");
  const lost = { code: "server/exited", kind: "environment", message: "gone" } as const;
  const trials = [trialOf(wrong, { grades: [grade("tool-call-health", 0, "bad")] }), brokenTrial(gone, lost)];
  const text = await written("console", sampleRun({ tasks: [wrong, gone], trials }));
  expect(text).toMatch(/^ +✗ .*add +t1 +mcp-eval\.config\.yaml:12$/m);
  expect(text).toMatch(/^ +! .*echo +t2 +mcp-eval\.config\.yaml:12$/m);
});

it.each([
  ["console", /^ +ask +2\/2, 1 by the tool's result only, 1 not judged +100 % /m],
  ["console", /^ +2 passed \(1 by the tool's result only\) · /m],
  ["json", /"byToolResult": 1\b/],
  ["markdown", /^1 of 2 passed by the tool's result only: ask\.$/m],
  ["github", /1 of 2 passed by the tool's result only: ask$/m],
  ["junit", /<property name="mcpvals\.byToolResult" value="1"\/>/],
] as const)(
  "says in %s of passes that only a tool's result has what was expected",
  async (name, expected) => {
    const task = workflow("ask");
    const gone = { code: "server/exited", kind: "environment", message: "gone" } as const;
    const run = sampleRun({
      tasks: [task],
      trials: [
        trialOf(task, { agent: "scripted", byToolResult: true }),
        trialOf(task, { agent: "scripted", attempt: 2 }),
        brokenTrial(task, gone, { agent: "scripted", attempt: 3 }),
      ],
      agents: [scripted],
    });
    expect(await written(name, run)).toMatch(expected);
  },
);

it.each([
  ["markdown", "1.3 s", "used 1/3 tools (33 %), 2/4 parameters (50 %) · 1.3 s"],
  ["github", "PASS", "PASS · used 1/3 tools (33 %25), 2/4 parameters (50 %25)"],
  ["junit", "", '<property name="mcpvals.coverage" value="1/3 tools (33 %), 2/4 parameters (50 %)"/>'],
] as const)("says in %s how much of a server was used", async (name, without, expected) => {
  const run = passingRun();
  const coverage = {
    everything: {
      tools: { total: 3, unused: ["add", "sum"] },
      parameters: { total: 4, unused: ["add.a", "sum.a"] },
      errors: { total: 2, unused: [] },
    },
  };
  const { end } = run;
  const text = await written(name, { ...run, end: { ...end, result: { ...end.result, coverage } } });
  expect(text).toContain(expected);
  const plain = await written(name, run);
  expect([plain.includes(without), plain.includes("tools, ")]).toEqual([true, false]);
});

describe("warnings and skipped trials", () => {
  const remarked = (): SampleRun => {
    const run = passingRun();
    const [first, second, ...rest] = run.end.result.trials;
    if (first === undefined || second === undefined) throw new Error("two trials are needed");
    const trials: TrialResult[] = [
      { ...first, warnings: ['the grader "lazy" judged nothing: no calls'] },
      {
        ...second,
        verdict: "skip",
        score: null,
        grades: [],
        error: { code: "task/missing-requirement", kind: "environment", message: "needs kubectl" },
      },
      ...rest,
    ];
    return { ...run, end: { ...run.end, result: { ...run.end.result, trials } } };
  };

  it("are sections in Markdown", async () => {
    const text = await written("markdown", remarked());
    expect(text).toMatch(/## Skipped\n\n- .+: needs kubectl\n/);
    expect(text).toMatch(/## Warnings\n\n- .+: the grader "lazy" judged nothing: no calls\n/);
  });

  it("are annotations on GitHub", async () => {
    const text = await written("github", remarked());
    expect(text).toMatch(/^::warning .*title=.+::the grader "lazy" judged nothing: no calls$/m);
    expect(text).toMatch(/^::notice .*title=.+::skipped: needs kubectl$/m);
  });

  it("has a result for each warning in SARIF", async () => {
    const text = await written("sarif", remarked());
    expect(text).toContain('"ruleId":"trial-warning","level":"warning"');
    expect(text).toContain('{"id":"trial-warning"');
  });
});

describe("github", () => {
  it("annotates errors and warnings, and ends with the verdict", async () => {
    expect(await written("github", checkedRun())).toMatchInlineSnapshot(`
      "::error title=protocol/stdout::stdout has something else than MCP messages: the server: a line is "started \\x1b[31m". Write logs to stderr.
      ::error title=schema/dangling-ref::A $ref points to nothing: tool search, parameter user: nothing is at "#/$defs/User". Point it to a schema that the same document has, for example under $defs, or write the schema in its place.
      ::error title=call/crash::A call ends the server: tool read: exit code 7 after {}. Catch errors in the tool, and answer with isError: true.
      ::warning title=client/name-characters::Clients refuse a tool's name for its characters: tool notes.read: the name has a dot. Use letters, digits, underscores and hyphens only.
      ::warning title=schema/untyped-parameter::A parameter has no type: tool search, parameter q: it has no type, enum or const. Give it a type, an enum or a const.
      ::error title=mcpvals::FAIL
      "
    `);
  });

  it("annotates failed tests, and what could not be judged", async () => {
    const text = await written("github", failingRun());
    expect(text.match(/^::error title=.+$/gm)).toHaveLength(5);
    expect(text).toMatch(/\n::error title=mcpvals::FAIL\n$/);
    expect(await written("github", passingRun())).toBe("::notice title=mcpvals::PASS\n");
    expect(await written("github", brokenRun())).toContain("::error title=");
  });

  it("writes a property or message that is hostile so that it stays one", async () => {
    const run = checkedRun();
    const trials = run.end.result.trials.map((trial) => ({
      ...trial,
      form: "workflow" as const,
      task: "a,file=/etc/passwd::\n::set-output name=x::100%0A",
    }));
    const text = await written("github", {
      ...run,
      end: { ...run.end, result: { ...run.end.result, trials } },
    });
    expect(text.split("\n")[0]).toMatch(
      /^::error title=(?:notes › )?a%2Cfile=\/etc\/passwd%3A%3A\\n%3A%3Aset-output name=x%3A%3A100%250A::/,
    );
  });

  it("gives the job its summary in Markdown", async () => {
    const output = captureOutput();
    let summary = "";
    const reporter = reporters.github({ ...output, summary: (text) => void (summary += text) });
    await play(checkedRun(), reporter);
    expect(summary).toBe(await written("markdown", checkedRun()));
  });
});

describe("markdown", () => {
  it("has a check: servers, findings by severity, clients", async () => {
    expect(await written("markdown", checkedRun())).toMatchInlineSnapshot(`
      "# mcpvals check: fail

      3 errors, 2 warnings, 1 info · 5 tools, 4 called, 1 not: delete\\_note (it is not annotated readOnlyHint: true) · 1.1 s

      **notes**: notes-server 1.2.0 · MCP 2025-11-25 · 5 tools, 1 resource, 0 prompts

      ## Errors (3)

      | where | what is wrong | what to do |
      | --- | --- | --- |
      | the server | stdout has something else than MCP messages (protocol/stdout): a line is "started \\\\x1b\\[31m" | Write logs to stderr. |
      | tool search, parameter user | A $ref points to nothing (schema/dangling-ref): nothing is at "\\#/$defs/User" | Point it to a schema that the same document has, for example under $defs, or write the schema in its place. |
      | tool read | A call ends the server (call/crash): exit code 7 after {} | Catch errors in the tool, and answer with isError: true. |

      ## Warnings (2)

      | where | what is wrong | what to do |
      | --- | --- | --- |
      | tool notes.read | Clients refuse a tool's name for its characters (client/name-characters): the name has a dot | Use letters, digits, underscores and hyphens only. |
      | tool search, parameter q | A parameter has no type (schema/untyped-parameter): it has no type, enum or const | Give it a type, an enum or a const. |

      ## Info (1)

      | where | what is wrong | what to do |
      | --- | --- | --- |
      | tool search; tool read; tool list; tool delete\\_note | OpenAI's strict mode does not take the schema (client/openai-strict): additionalProperties is not false | Set additionalProperties: false in each object, and list all properties as required; optional ones take null. |

      ## Clients

      | tool | Claude | Cursor | VS Code | Gemini | OpenAI | Codex |
      | --- | --- | --- | --- | --- | --- | --- |
      | search | invalid | invalid | invalid | refused | invalid | changed |
      | notes.read | refused | ok | ok | ok | ok | refused |
      "
    `);
  });

  it("has what failed with its evidence, and nothing that Markdown would read as markup", async () => {
    const text = await written("markdown", failingRun());
    expect(text).toMatch(
      /^# mcpvals: quickstart: fail\n\n1 passed · 4 failed · 1 skipped · 6 trials · 3\.2 s\n/,
    );
    expect(text).toContain("### everything › adds two numbers (t2)\n");
    expect(text).toContain('\n  call      get-sum {"a":2,"b":3}');
    const passed = await written("markdown", passingRun());
    expect(passed).toBe("# mcpvals: quickstart: pass\n\n2 passed · 2 trials · 1.3 s\n");
  });
});
