import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { validateXML } from "xmllint-wasm";
import { decisionText } from "../../src/report/decisions.ts";
import { junitReporter, xmlAttributes, xmlText } from "../../src/report/junit.ts";
import { ratesOf } from "../../src/report/rates.ts";
import { emptyRun, variedRun } from "./runs.ts";
import {
  brokenTrial,
  grade,
  play,
  request,
  response,
  sampleRun,
  type SampleRun,
  type SampleTrial,
  scripted,
  skipGrade,
  textResult,
  toolTest,
  trialOf,
  workflow,
} from "./samples.ts";
import { captureOutput } from "./screen.ts";
import { portableTask } from "./step-runs.ts";
import type { Verdict } from "../../src/model/grade.ts";
import type { Decision } from "../../src/model/result.ts";

const schema = readFileSync(join(import.meta.dirname, "../fixtures/junit.xsd"), "utf8");

async function written(run: SampleRun): Promise<string> {
  const output = captureOutput();
  await play(run, junitReporter(output));
  return output.text();
}

async function problemsOf(xml: string): Promise<readonly string[]> {
  const { errors } = await validateXML({ xml, schema });
  return errors.map((error) => error.message);
}

it("writes suites of cases: failures and errors with reasons and evidence, and what was skipped", async () => {
  const [echo, sum, nothing, slow] = ["echo", "sum", "nothing", "slow"].map((name) => toolTest(name));
  const [flow, page] = [workflow("flow"), portableTask("page", [])];
  const late = { code: "trial/timeout", kind: "timeout", message: 'over "2 s"' } as const;
  const mocked = trialOf(echo!, { warnings: ["a line is not MCP"] });
  const xml = await written(
    sampleRun({
      tasks: [echo!, sum!, nothing!, slow!, flow, page],
      agents: [scripted],
      trials: [
        { ...mocked, result: { ...mocked.result, mocks: ["everything"] } },
        trialOf(sum!, {
          events: [request(1, "get-sum", {}), response(1, textResult("5\u001b"))],
          grades: [grade("tool-call-health", 1), grade("verify-steps", 0, "it is 5 < 6", [2])],
        }),
        trialOf(nothing!, { grades: [skipGrade("verify-steps", "no step checks anything")] }),
        brokenTrial(slow!, late, { ms: 2001 }),
        trialOf(flow, {
          agent: "scripted",
          grades: [{ ...grade("judge", 0, "no verdict"), verdict: "error" }],
        }),
        trialOf(page),
      ],
    }),
  );
  const properties = (agents: string, more = ""): string => `    <properties>
      <property name="mcpvals.version" value="0.1.0"/>
      <property name="mcpvals.run" value="20261121-101500-4f2a"/>
      <property name="mcpvals.verdict" value="fail"/>
      <property name="mcpvals.agents" value="${agents}"/>
${more}    </properties>
`;
  const common = 'timestamp="2026-11-21T10:15:00.000Z"';
  expect(xml).toBe(`<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="quickstart" tests="6" failures="1" errors="2" time="3.200">
  <testsuite name="everything" tests="4" failures="1" errors="1" skipped="1" time="2.124" ${common}>
${properties("none", '      <property name="mcpvals.mocks" value="everything in 1 trial of 4"/>\n')}\
    <testcase name="echo" classname="quickstart.everything" time="0.041">
      <system-out>mock: everything
warning: a line is not MCP</system-out>
    </testcase>
    <testcase name="sum" classname="quickstart.everything" time="0.041">
      <failure type="verify-steps" message="verify-steps: it is 5 &lt; 6">verify-steps 0.00  it is 5 &lt; 6
  call      get-sum {}  (event 1, 4 ms)
  result    5\\x1b
passed: tool-call-health</failure>
    </testcase>
    <testcase name="nothing" classname="quickstart.everything" time="0.041">
      <skipped message="verify-steps: no step checks anything"/>
    </testcase>
    <testcase name="slow" classname="quickstart.everything" time="2.001">
      <error type="trial/timeout" message="over &quot;2 s&quot;">trial/timeout  over "2 s"
If it is only slow, raise limits.trial or --timeout.</error>
    </testcase>
  </testsuite>
  <testsuite name="workflows" tests="1" failures="0" errors="1" skipped="0" time="0.041" ${common}>
${properties("scripted (a written plan, not a model)")}\
    <testcase name="flow" classname="quickstart.workflows" time="0.041">
      <error type="judge" message="judge: no verdict">judge gave no verdict  no verdict</error>
    </testcase>
  </testsuite>
  <testsuite name="tasks" tests="1" failures="0" errors="0" skipped="0" time="0.041" ${common}>
${properties("none")}\
    <testcase name="page" classname="quickstart.tasks" file="/srv/tasks/page/task.yaml" time="0.041"/>
  </testsuite>
</testsuites>
`);
  expect(await problemsOf(xml)).toEqual([]);
  expect(await problemsOf(xml.replace('time="3.200"', 'time="1e3"'))).not.toEqual([]);
});

it("names agents and attempts where there are several; a run of nothing is valid", async () => {
  const xml = await written(variedRun());
  expect(await problemsOf(xml)).toEqual([]);
  expect([...xml.matchAll(/<testcase name="([^"]*)"/gu)].slice(2, 4).map(([, name]) => name)).toEqual([
    "books a flight · claude · attempt 3",
    "books a flight · scripted · attempt 1",
  ]);
  expect(await problemsOf(await written(emptyRun()))).toEqual([]);
});

it("has the rate of each task with its interval, by agent, and of all tasks, as properties", async () => {
  const run = variedRun();
  const { result, evidence } = run.end;
  const rated = { ...result, ...ratesOf(result.trials) };
  const xml = await written({ ...run, end: { evidence, result: rated } });
  expect(await problemsOf(xml)).toEqual([]);
  const rates = [...xml.matchAll(/<property name="mcpvals\.rate · ([^"]*)" value="([^"]*)"/gu)];
  expect(rates.map(([, name, value]) => `${name}: ${value}`)).toEqual([
    "books a flight · claude: 3/3, 100 % (44 to 100)",
    "books a flight · scripted: 3/3, 100 % (44 to 100)",
    "finds the cheapest · claude: 1/3, 33 % (6 to 79), flaky",
    "finds the cheapest · scripted: 0/3, 0 % (0 to 56)",
    "日本語のタスク 🎉 · claude: 2/2, 1 not judged, 100 % (34 to 100)",
    "日本語のタスク 🎉 · scripted: 3/3, 100 % (44 to 100)",
    expect.stringMatching(/^all tasks · claude: 6\/8, 1 not judged, \d+ % \(\d+ to \d+\)$/),
    expect.stringMatching(/^all tasks · scripted: 6\/9, \d+ % \(\d+ to \d+\)$/),
  ]);
});

const counts = { low: -0.2, high: 0.3, rounds: 4, maxRounds: 4 };

it("has a case for each decision, an error where it is undecided", async () => {
  const run = variedRun();
  const { result, evidence } = run.end;
  const decisions: readonly Decision[] = [
    { kind: "comparison", by: "agent", first: "claude", second: "scripted", verdict: "undecided", ...counts },
    { kind: "threshold", threshold: "passRate", value: 0.5, verdict: "missed", ...counts, low: 0.1 },
  ];
  const xml = await written({ ...run, end: { evidence, result: { ...result, decisions } } });
  expect(await problemsOf(xml)).toEqual([]);
  const suite = xml.slice(xml.indexOf('  <testsuite name="decisions"'));
  expect(suite).toBe(`  <testsuite name="decisions" tests="2" failures="0" errors="1">
    <testcase name="scripted or claude" classname="mcpvals.decisions">
      <error type="decision" message="${decisionText(decisions[0]!)}"/>
    </testcase>
    <testcase name="passRate" classname="mcpvals.decisions">
      <system-out>${decisionText(decisions[1]!)}</system-out>
    </testcase>
  </testsuite>
</testsuites>
`);
  const [, tests, failures, errors] =
    /tests="(\d+)" failures="(\d+)" errors="(\d+)"/u.exec(xml.slice(xml.indexOf("<testsuites"))) ?? [];
  expect([tests, failures, errors]).toEqual(["20", "5", "2"]);
});

it("writes a document that is valid and complete whatever the texts, times and verdicts", async () => {
  const text = fc.oneof(
    fc.string({ unit: "binary", maxLength: 30 }),
    fc.string({
      unit: fc.constantFrom("<", "]]>", "&", '"', "'", "\u0000", "\ud800", "\uffff", "\n", "\t", "\r", "é"),
    }),
  );
  const verdict = fc.constantFrom<Verdict>("pass", "fail", "error", "timeout", "skip");
  const anyTrial = fc
    .record({ verdict, name: text, suite: text, words: text, ms: fc.double() })
    .map(({ verdict, name, suite, words, ms }): SampleTrial => {
      const task = suite === "" ? workflow(name) : toolTest(name, { suite });
      const events = [request(1, words, { [words]: words }), response(1, textResult(words))];
      const grades = verdict === "timeout" ? [] : [{ ...grade(words, 0.5, words, [2]), verdict }];
      const { result, ...rest } = trialOf(task, { ms, grades, events, warnings: [words] });
      const error = { code: "server/exited", kind: "environment", message: words, detail: words } as const;
      return { ...rest, result: { ...result, verdict, ...(verdict === "timeout" ? { error } : {}) } };
    });
  await fc.assert(
    fc.asyncProperty(fc.array(anyTrial, { maxLength: 25 }), text, async (trials, name) => {
      const tasks = trials.map(({ result }) => ({ ...toolTest(""), name: result.task }));
      const run = sampleRun({ name, tasks, trials, agents: [scripted], durationMs: -1 });
      const xml = await written(run);
      expect(await problemsOf(xml)).toEqual([]);
      const elements = ["testcase", "failure", "error", "skipped"].map(
        (tag) => xml.split(`<${tag} `).length - 1,
      );
      const having = (...wanted: Verdict[]): number =>
        trials.filter(({ result }) => wanted.includes(result.verdict)).length;
      const [failures, errors] = [having("fail"), having("error", "timeout")];
      const added = run.end.result.verdict === "incomplete" && failures + errors === 0 ? 1 : 0;
      expect(elements).toEqual([trials.length + added, failures, errors + added, having("skip")]);
    }),
    { numRuns: 12 },
  );
});

it("escapes markup and the line breaks of attributes, and leaves out what XML 1.0 cannot carry", () => {
  expect(xmlText('a < b && c > d ]]> "q"')).toBe('a &lt; b &amp;&amp; c &gt; d ]]&gt; "q"');
  expect(xmlText("a\u0000b\u001b[0m\ud800c\uffff\tline\n🎉")).toBe("ab[0mc\tline\n🎉");
  expect(xmlAttributes({ name: 'a "b"\n\tc', skipped: undefined, tests: 3 })).toBe(
    ' name="a &quot;b&quot;&#10;&#9;c" tests="3"',
  );
});
