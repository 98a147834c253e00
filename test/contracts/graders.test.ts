import { describe, expect, it } from "vitest";
import { workspaceFilesOf, graderKinds } from "../../src/graders/kinds.ts";
import type { DeclaredKind, KindContext } from "../../src/graders/grader.ts";
import { settingsOf } from "../../src/graders/settings.ts";
import { AgentTrial, gradeBy, settingIssues, trialThatLeft } from "../support/grading.ts";
import { TrialEvents } from "../support/trial-events.ts";

/** The outside of graders: programs and judges say that all is well, and every file is there. */
const world: Partial<KindContext> = {
  readFile: async () => ({ size: 2, sha256: "ab", text: "{}" }),
  runProgram: async ({ stdin }) => {
    const answer = { score: 1, reason: "all is well" };
    // Assertions and graders in JavaScript are run by a program of our own, which wraps what they say.
    const wrapped = { script: { answer }, code: { answer: [{ holds: true }] } };
    const { kind } = JSON.parse(stdin) as { readonly kind?: "script" | "code" };
    const said = kind === undefined ? answer : wrapped[kind];
    return { exitCode: 0, stdout: JSON.stringify(said), omitted: 0, stderr: "" };
  },
  askJudge: async ({ form }) => {
    const reading = form.read({ score: 1, passed: true, winner: "A much better", reason: "all is well" });
    if ("problem" in reading) throw new Error(reading.problem);
    return { verdict: reading.verdict, model: "test/judge", prompt: "sha256:1", question: "sha256:2" };
  },
};

/** A trial in whose workspace everything that a type names by its example is missing. */
function trialFor({ type, example, config }: DeclaredKind, play?: (trial: AgentTrial) => void): AgentTrial {
  const spec = { type, name: type, weight: 1, required: true, config: config.parse(example), dir: "/" };
  const names = workspaceFilesOf([spec as Parameters<typeof workspaceFilesOf>[0][number]]);
  return trialThatLeft(Object.fromEntries(names.map((name) => [name, []])), play);
}

const busy = (trial: AgentTrial): void => {
  trial.use("list", { all: true });
  trial.fail("get", { id: 7 });
  trial.report("Bash", { args: { command: "ls" } });
  trial.say('{"total": "4 notes"}');
};

it.each([
  ["tool_calls", { expect: [{ tool: "add", min: 0 }] }],
  ["tool_constraint", { expect_tools: [{ tool: "add", min: 0 }] }],
  ["mcp_compliance", { threshold: 0 }],
  ["program", { command: "grade", threshold: 0 }],
  ["script", { file: "grade.ts", threshold: 0 }],
  ["prompt", { rubric: "task_completion", threshold: 0 }],
])("settings of %s with which it could not fail are refused: %j", (type, settings) => {
  expect(settingIssues(type, settings)).toEqual([
    expect.stringMatching(/could not fail|expected number to be >0/),
  ]);
});

describe.each(Object.values(graderKinds))("graders of type $type", (kind) => {
  const { type, config, example } = kind;

  it("describe themselves and their settings, and have an example that is valid", () => {
    expect(kind.description).toMatch(/\.$/);
    const settings = settingsOf(config);
    expect(settings).not.toEqual([]);
    for (const { key, description } of settings)
      expect([key, description]).toEqual([key, expect.stringMatching(/\S/)]);
    expect(settingIssues(type, example)).toEqual([]);
  });

  it("refuse keys that they do not know, and have JSON as settings", () => {
    expect(settingIssues(type, { ...example, unheard_of: 1 })).toHaveLength(1);
    const parsed = config.parse(example);
    expect(JSON.parse(JSON.stringify(parsed))).toEqual(parsed);
    // What is in a plan is read again when a stored run is graded.
    expect(config.parse(parsed)).toEqual(parsed);
  });

  it("never pass a trial without an agent, or one whose agent did nothing", async () => {
    const nobody = new TrialEvents().server("k8s").begin("task");
    const idle = trialFor(kind, () => undefined);
    for (const trial of [nobody, idle]) {
      const { verdict, score } = await gradeBy(type, example, trial, world).catch(() => ({
        verdict: "error",
        score: null,
      }));
      expect(verdict).not.toBe("pass");
      expect(score === null || score < 1).toBe(true);
    }
  });

  it("cite events that exist, score from 0 to 1, and say the same again", async () => {
    const trial = trialFor(kind, busy);
    const finding = await gradeBy(type, example, trial, world);
    expect(await gradeBy(type, example, trial, world)).toEqual(finding);
    expect(finding.reason).toMatch(/\S/);
    expect(finding.evidence.filter((seq) => trial.events[seq - 1] === undefined)).toEqual([]);
    expect(finding.evidence).toEqual([...new Set(finding.evidence)]);
    if (finding.verdict === "skip") expect(finding.score).toBeNull();
    else {
      expect(finding.evidence).not.toEqual([]);
      expect(finding.score).toBeGreaterThanOrEqual(0);
      expect(finding.score).toBeLessThanOrEqual(1);
      if (finding.verdict === "fail") expect(finding.score).toBeLessThan(1);
    }
  });
});
