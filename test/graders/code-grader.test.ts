import { expect, it } from "vitest";
import { runProgram } from "../../src/graders/run-program.ts";
import type { GraderResult } from "../../src/graders/grader.ts";
import { AgentTrial, gradeBy, settingIssues } from "../support/grading.ts";

const busy = new AgentTrial((trial) => {
  trial.use("list", { all: true }, "3 pods, no error here");
  trial.fail("get", { name: "a" });
  trial.say("There are 3 pods.");
});
const runs = { env: { PATH: process.env["PATH"] }, signal: new AbortController().signal };

/** Evaluates assertions in a process of their own. */
function gradeByCode(
  language: string,
  assertions: readonly string[],
  settings = {},
  trial = busy,
): Promise<GraderResult> {
  const config = { language, assertions, timeout: "60s", ...settings };
  return gradeBy("code", config, trial, {
    runProgram: (program) => runProgram(program, runs),
    dir: import.meta.dirname,
  });
}

const all = {
  python: [
    '"3 pods" in output',
    "any(word in output for word in ['pods', 'nodes'])",
    "[c['name'] for c in tool_calls] == ['list', 'get']",
    "tool_calls[0]['arguments']['all'] and tool_calls[0]['server'] == 'k8s'",
    "[c['success'] for c in tool_calls] == [True, False]",
    "errors == ['no such thing']",
    "duration_ms == 1200",
    "re.search(r'\\d pods', output) is not None",
    "[e['type'] for e in transcript][0] == 'user.message'",
    "outcome == {}",
  ],
  javascript: [
    "output.includes('3 pods')",
    "['pods', 'nodes'].some((word) => output.includes(word))",
    "tool_calls.map(({ name }) => name).join() === 'list,get'",
    "tool_calls[0].arguments.all && tool_calls[0].server === 'k8s'",
    "errors.length === 1 && errors[0] === 'no such thing'",
    "duration_ms === 1200",
    "transcript.at(-1).content === output",
    "Object.keys(outcome).length === 0",
  ],
};

it.each(Object.entries(all))(
  "assertions in %s see what the agent said and did",
  async (language, assertions) => {
    const grade = await gradeByCode(language, assertions);
    expect(grade).toMatchObject({ verdict: "pass", score: 1 });
  },
);

it.each([
  ["python", ["len(tool_calls) == 2", "len(errors) == 0", "tool_calls[7]['success']"], "IndexError"],
  ["javascript", ["tool_calls.length === 2", "errors.length === 0", "tool_calls[7].success"], "TypeError"],
])("an assertion in %s that is false or fails lowers the score", async (language, assertions, error) => {
  const grade = await gradeByCode(language, assertions);
  expect(grade).toMatchObject({ verdict: "fail", score: 1 / 3 });
  expect(grade.reason).toContain(`${assertions[1]} is not true; ${assertions[2]} is not true (${error}: `);
});

it.each([
  ["python", ["1", "output", "(False, 'x')", "re.search('pods', output)", "[]", "None"], "of type tuple"],
  ["javascript", ["1", "output", "['x']", "/pods/.exec(output)", "0", "null"], "of type object"],
])("only a value that is true holds in %s", async (language, assertions, told) => {
  const grade = await gradeByCode(language, assertions);
  expect(grade).toMatchObject({ verdict: "fail", score: 0, reason: expect.stringContaining(told) });
});

it.each([
  ["python", "outptu == ''", "NameError"],
  ["python", "output ==", "SyntaxError"],
  ["javascript", "outptu === ''", "ReferenceError"],
  ["javascript", "output ===", "SyntaxError"],
  ["javascript", "(async () => false)()", "gives a promise"],
])("an assertion in %s that is wrong is an error: %s", async (language, assertion, message) => {
  await expect(gradeByCode(language, [assertion])).rejects.toMatchObject({
    code: "grader/broken",
    message: expect.stringContaining(message),
  });
});

it.each([
  ["python", "[0 for _ in iter(int, 1)]"],
  ["javascript", "(() => { for (;;); })()"],
])("an assertion in %s that never ends is stopped", async (language, assertion) => {
  await expect(gradeByCode(language, [assertion], { timeout: "700ms" })).rejects.toMatchObject({
    code: "grader/timeout",
  });
});

it("an assertion without an outcome is an error", async () => {
  const end = { exitCode: 0, stdout: JSON.stringify({ answer: [{ holds: true }] }), omitted: 0, stderr: "" };
  const config = { assertions: ["True", "False"] };
  await expect(gradeBy("code", config, busy, { runProgram: async () => end })).rejects.toMatchObject({
    code: "grader/broken",
    message: "not every assertion was evaluated",
  });
});

it("evaluates nothing for a trial that shows nothing of the agent", async () => {
  const grade = await gradeByCode("python", ["True"], {}, new AgentTrial());
  expect(grade).toMatchObject({ verdict: "skip", score: null });
});

it("refuses settings without assertions", () => {
  expect(settingIssues("code", { assertions: [] })).toHaveLength(1);
  expect(settingIssues("code", { assertions: ["True"], language: "ruby" })).toHaveLength(1);
});
