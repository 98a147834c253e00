import * as z from "zod";
import { expect, expectTypeOf, it } from "vitest";
import {
  AgentTrial,
  gradeBy,
  settingIssues,
  trialThatLeft,
  workspaceFile,
} from "../../../test/support/grading.ts";
import { defineGrader } from "./answer.ts";

const trial = new AgentTrial((events) => events.say("Done."));

/** Grades by a script whose process writes the given text. */
function gradeByScript(stdout: string, settings = {}): ReturnType<typeof gradeBy> {
  const runProgram = async () => ({ exitCode: 0, stdout, omitted: 0, stderr: "" });
  return gradeBy("script", { file: "grade.ts", ...settings }, trial, { runProgram });
}

it.each([
  [{ score: 1, reason: "as it should be" }, {}, "pass", 1, "as it should be"],
  [{ passed: false }, {}, "fail", 0, "score 0"],
  [{ score: 0.6 }, {}, "fail", 0.6, "score 0.6"],
  [{ score: 0.6 }, { threshold: 0.5 }, "pass", 0.6, "score 0.6"],
  [{ score: null, reason: "nothing to look at" }, {}, "skip", null, "nothing to look at"],
])("the answer %j with %j: %s", async (answer, settings, verdict, score, reason) => {
  const grade = await gradeByScript(`printed\n${JSON.stringify({ answer })}\n`, settings);
  expect(grade).toMatchObject({ verdict, score, reason });
});

it.each([
  ["", "grade.ts ended without an answer"],
  ['{"problem": "threw Error: no pods"}', "grade.ts threw Error: no pods"],
  ['{"answer": {"score": 7}}', "score"],
])("%j is not an answer", async (stdout, message) => {
  await expect(gradeByScript(stdout)).rejects.toMatchObject({
    code: "grader/broken",
    message: expect.stringContaining(message),
  });
});

it("runs nothing for a trial that shows nothing of the agent", async () => {
  expect(await gradeBy("script", { file: "grade.ts" }, new AgentTrial())).toMatchObject({ verdict: "skip" });
});

it.each([
  ["command", ["r.md"], "fail"],
  ["command", [], "skip"],
  // What an agent without a workspace of its own did is on record.
  ["model", ["r.md"], "skip"],
] as const)("judges what a silent agent of kind %s left: %j", async (kind, left, verdict) => {
  const silent = trialThatLeft({ "**": left.map((path) => workspaceFile(path, "hello")) }, (events) =>
    events.emit({ type: "agent.started", kind, agent: "writer" }),
  );
  const runProgram = async () => ({
    exitCode: 0,
    stdout: '{"answer":{"passed":false}}',
    omitted: 0,
    stderr: "",
  });
  expect(await gradeBy("script", { file: "grade.ts" }, silent, { runProgram })).toMatchObject({ verdict });
});

it("refuses files that are no programs", () => {
  expect(settingIssues("script", { file: "grade.py" })).toEqual([
    "must be a file that ends in .ts, .mts, .js or .mjs",
  ]);
  expect(settingIssues("script", {})).toHaveLength(1);
  // The operating system knows no such file, and Node throws where it is asked about one.
  expect(settingIssues("script", { file: "a\0.ts" })).toEqual(["must not contain a NUL character"]);
});

it("a grader has its settings as its schema gives them", () => {
  defineGrader({
    settings: z.object({ most: z.coerce.number() }),
    grade({ calls }, { settings }) {
      expectTypeOf(settings).toEqualTypeOf<{ most: number }>();
      return { score: calls.length <= settings.most ? 1 : 0 };
    },
  });
  const plain = defineGrader({ grade: (_, { settings }) => ({ passed: settings["strict"] === true }) });
  expect(plain).toHaveProperty("grade");
});
