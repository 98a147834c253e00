import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { validateXML } from "xmllint-wasm";
import type { Verdict } from "../../src/core/trace/events.ts";
import { junitReporter, xmlAttributes, xmlText } from "../../src/reporters/junit.ts";
import { brokenRun, emptyRun, failingRun, interruptedRun, passingRun, variedRun } from "./runs.ts";
import {
  grade,
  play,
  request,
  response,
  sampleRun,
  type SampleRun,
  type SampleTrial,
  scripted,
  textResult,
  toolTest,
  trialOf,
  workflow,
} from "./samples.ts";
import { captureOutput } from "./screen.ts";

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

describe("the schema of the test", () => {
  it.each([
    ["a wrong count", '<testsuites tests="-1"/>'],
    ["a time in another unit", '<testsuites time="1e3"/>'],
    ["skipped on the root", '<testsuites skipped="1"/>'],
    ["properties outside of a suite", "<testsuites><properties/></testsuites>"],
    ["a control character", "<testsuites name='\u0001'/>"],
  ])("refuses %s", async (_, xml) => {
    expect(await problemsOf(xml)).not.toEqual([]);
  });
});

it("writes failures with reasons and evidence", async () => {
  expect(await written(failingRun())).toBe(
    String.raw`
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="quickstart" tests="6" failures="4" errors="0" time="3.200">
  <testsuite name="everything" tests="5" failures="3" errors="0" skipped="1" time="0.378" timestamp="2026-11-21T10:15:00.000Z">
    <properties>
      <property name="mcpvals.version" value="0.1.0"/>
      <property name="mcpvals.run" value="20261121-101500-4f2a"/>
      <property name="mcpvals.verdict" value="fail"/>
      <property name="mcpvals.agents" value="none"/>
    </properties>
    <testcase name="echo answers what it was told" classname="quickstart.everything" time="0.041">
      <system-out>warning: server "everything" wrote a line on stdout that is not MCP, first "hi"</system-out>
    </testcase>
    <testcase name="adds two numbers" classname="quickstart.everything" time="0.039">
      <failure type="verify-steps" message="verify-steps: result: the last number in the text is 5, expected 6">verify-steps 0.00  result: the last number in the text is 5, expected 6
  call      get-sum {"a":2,"b":3}  (event 2, 4 ms)
  result    The sum of 2 and 3 is 5.
passed: tool-call-health</failure>
    </testcase>
    <testcase name="gives the weather" classname="quickstart.everything" time="0.245">
      <failure type="verify-steps" message="verify-steps: result: the result does not contain what was expected: /city is missing; latency: 240.1 ms, 100 ms allowed">verify-steps 0.00  result: the result does not contain what was expected: /city is missing; latency: 240.1 ms, 100 ms allowed
  diff      │ - expected  + actual
            │   {
            │ -   "conditions": "Sunny",
            │ +   "conditions": "Cloudy",
            │     "temperature": 33,
            │     "wind": {
            │       "speed": 3,
            │ -     "direction": "SE"
            │ +     "direction": "NW"
            │     }
            │   }
  call      get-structured-content {"location":"New York"}  (event 2, 4 ms)
  result    {"temperature":33,"conditions":"Cloudy","humidity":82,"wind":{"speed":3,"direction":"NW"}}
passed: tool-call-health</failure>
    </testcase>
    <testcase name="answers isError" classname="quickstart.everything" time="0.041">
      <failure type="tool-call-health" message="tool-call-health: annotated answered isError: bad \x1b[2J thing">tool-call-health 0.00  annotated answered isError: bad \x1b[2J thing
  call      annotated {"text":"\u001b[31mred"}  (event 1, 4 ms)
  isError   │ bad \x1b[2J\x07 thing
            │ at line 2</failure>
    </testcase>
    <testcase name="checks nothing" classname="quickstart.everything" time="0.012">
      <skipped message="tool-call-health: no tool was called; verify-steps: no step checks anything"/>
    </testcase>
  </testsuite>
  <testsuite name="workflows" tests="1" failures="1" errors="0" skipped="0" time="0.131" timestamp="2026-11-21T10:15:00.000Z">
    <properties>
      <property name="mcpvals.version" value="0.1.0"/>
      <property name="mcpvals.run" value="20261121-101500-4f2a"/>
      <property name="mcpvals.verdict" value="fail"/>
      <property name="mcpvals.agents" value="scripted (a written plan, not a model)"/>
    </properties>
    <testcase name="get the sum" classname="quickstart.workflows" time="0.131">
      <failure type="end-to-end-success" message="end-to-end-success: turn 1: neither the last assistant message nor the last tool result contains &quot;5&quot;">end-to-end-success 0.00  turn 1: neither the last assistant message nor the last tool result contains "5"
  said      I have added the two numbers for you, and the answer that I arrived at is 4. Anything else?  (event 4)
  call      get-sum {"a":2,"b":2}  (event 2, 4 ms)
  result    The sum of 2 and 2 is 4.
passed: tool-invocation-order, tool-call-health</failure>
    </testcase>
  </testsuite>
</testsuites>
`.slice(1),
  );
});

it("writes errors and timeouts as errors", async () => {
  expect(await written(brokenRun())).toBe(
    String.raw`
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="quickstart" tests="6" failures="0" errors="5" time="3.200">
  <testsuite name="everything" tests="5" failures="0" errors="4" skipped="0" time="2.090" timestamp="2026-11-21T10:15:00.000Z">
    <properties>
      <property name="mcpvals.version" value="0.1.0"/>
      <property name="mcpvals.run" value="20261121-101500-4f2a"/>
      <property name="mcpvals.verdict" value="incomplete"/>
      <property name="mcpvals.agents" value="none"/>
    </properties>
    <testcase name="first" classname="quickstart.everything" time="0.041"/>
    <testcase name="second" classname="quickstart.everything" time="0.003">
      <error type="server/spawn-failed" message="server &quot;everything&quot;: could not start &quot;nod&quot;: no such program">server/spawn-failed  server "everything": could not start "nod": no such program
Check command, args and cwd; run the same command in a terminal.</error>
    </testcase>
    <testcase name="third" classname="quickstart.everything" time="0.004">
      <error type="server/spawn-failed" message="server &quot;everything&quot;: could not start &quot;nod&quot;: no such program">server/spawn-failed  server "everything": could not start "nod": no such program
Check command, args and cwd; run the same command in a terminal.</error>
    </testcase>
    <testcase name="fourth" classname="quickstart.everything" time="0.041">
      <error type="server/exited" message="the server &quot;everything&quot; ended with code 1 before it answered initialize">server/exited  the server "everything" ended with code 1 before it answered initialize
Run the same command in a terminal: node everything.js
  stderr    │ Error: Cannot find module 'zod'
            │ Require stack:
            │ - /srv/\x1b[1meverything.js</error>
    </testcase>
    <testcase name="fifth" classname="quickstart.everything" time="2.001">
      <error type="trial/timeout" message="the trial did not finish within 2 s">trial/timeout  the trial did not finish within 2 s
If it is only slow, raise limits.trial or --timeout.</error>
    </testcase>
  </testsuite>
  <testsuite name="workflows" tests="1" failures="0" errors="1" skipped="0" time="0.041" timestamp="2026-11-21T10:15:00.000Z">
    <properties>
      <property name="mcpvals.version" value="0.1.0"/>
      <property name="mcpvals.run" value="20261121-101500-4f2a"/>
      <property name="mcpvals.verdict" value="incomplete"/>
      <property name="mcpvals.agents" value="scripted (a written plan, not a model)"/>
    </properties>
    <testcase name="is polite" classname="quickstart.workflows" time="0.041">
      <error type="judge" message="judge: the judge answered with something that is no verdict">judge gave no verdict  the judge answered with something that is no verdict
  judge/no-verdict  not JSON: "I would say fine"
  Try again, or choose another judge model. A trial without a verdict never passes.
passed: tool-call-health</error>
    </testcase>
  </testsuite>
</testsuites>
`.slice(1),
  );
});

it.each([
  ["passing", passingRun()],
  ["failing", failingRun()],
  ["broken", brokenRun()],
  ["varied", variedRun()],
  ["interrupted", interruptedRun()],
  ["empty", emptyRun()],
])("writes a valid document for a run that is %s", async (_, run) => {
  expect(await problemsOf(await written(run))).toEqual([]);
});

it("names agents and attempts where there are several, and skips what was not run", async () => {
  expect(namesIn(await written(variedRun())).slice(0, 4)).toEqual([
    "books a flight · claude · attempt 1",
    "books a flight · claude · attempt 2",
    "books a flight · claude · attempt 3",
    "books a flight · scripted · attempt 1",
  ]);
  expect((await written(interruptedRun())).match(/<skipped [^>]*>/gu)).toEqual(
    Array.from({ length: 3 }, () => '<skipped message="the run was interrupted before this trial started"/>'),
  );
});

it("writes a document that is valid and complete whatever the texts, times and verdicts", async () => {
  const text = fc.oneof(
    fc.string({ unit: "binary", maxLength: 30 }),
    fc.string({
      unit: fc.constantFrom("<", "]]>", "&", '"', "'", "\u0000", "\ud800", "\uffff", "\n", "\t", "\r", "é"),
    }),
  );
  const verdict = fc.constantFrom<Verdict>("pass", "fail", "error", "timeout", "skip");
  const anyTrial = fc.record({ verdict, name: text, suite: text, words: text, ms: fc.double() });
  await fc.assert(
    fc.asyncProperty(fc.array(anyTrial, { maxLength: 25 }), text, async (drafts, name) => {
      await expectComplete(drafts.map(hostileTrial), name);
    }),
    { numRuns: 12 },
  );
});

async function expectComplete(trials: readonly SampleTrial[], name: string): Promise<void> {
  const tasks = trials.map(({ result }) => ({ ...toolTest(""), name: result.task }));
  const xml = await written(sampleRun({ name, tasks, trials, agents: [scripted], durationMs: -1 }));
  expect(await problemsOf(xml)).toEqual([]);
  const count = (pattern: RegExp): number => xml.match(pattern)?.length ?? 0;
  const having = (...wanted: Verdict[]): number =>
    trials.filter((trial) => wanted.includes(trial.result.verdict)).length;
  expect(count(/<testcase /gu)).toBe(trials.length);
  expect(count(/<failure /gu)).toBe(having("fail"));
  expect(count(/<error /gu)).toBe(having("error", "timeout"));
  expect(count(/<skipped /gu)).toBe(having("skip"));
}

interface Draft {
  readonly verdict: Verdict;
  readonly name: string;
  readonly suite: string;
  readonly words: string;
  readonly ms: number;
}

function hostileTrial({ verdict, name, suite, words, ms }: Draft): SampleTrial {
  const task = suite === "" ? workflow(name) : toolTest(name, { suite });
  const events = [request(1, words, { [words]: words }), response(1, textResult(words))];
  const graded = verdict === "timeout" ? [] : [{ ...grade(words, 0.5, words, [2]), verdict }];
  const { result, ...rest } = trialOf(task, { ms, grades: graded, events, warnings: [words] });
  const error = { code: "server/exited", kind: "environment", message: words, detail: words } as const;
  return { ...rest, result: { ...result, verdict, ...(verdict === "timeout" ? { error } : {}) } };
}

function namesIn(xml: string): string[] {
  return [...xml.matchAll(/<testcase name="([^"]*)"/gu)].map(([, name]) => name ?? "");
}

it("escapes markup", () => {
  expect(xmlText('a < b && c > d ]]> "q"')).toBe('a &lt; b &amp;&amp; c &gt; d ]]&gt; "q"');
});

it("leaves out what XML 1.0 cannot carry", () => {
  expect(xmlText("a\u0000b\u001b[0m\ud800c\uffff\tline\n🎉")).toBe("ab[0mc\tline\n🎉");
});

it("keeps line breaks and tabs of attributes, and drops absent ones", () => {
  expect(xmlAttributes({ name: 'a "b"\n\tc', skipped: undefined, tests: 3 })).toBe(
    ' name="a &quot;b&quot;&#10;&#9;c" tests="3"',
  );
});
