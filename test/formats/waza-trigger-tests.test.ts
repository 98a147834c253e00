import { expect, it } from "vitest";
import { loadIn, problemsIn } from "./support/load.ts";

const evalFile = `skill: triage
config: { executor: copilot-sdk, skill_directories: [skills] }
mcp_servers: { tracker: { command: node, args: [s.js] } }
tasks: [task.yaml]
metrics: [{ name: trigger_accuracy, threshold: 0.8, weight: 2 }]
graders: [{ type: behavior, config: { max_tool_calls: 9 } }]
`;
const files = (tests: string): Record<string, string> => ({
  "eval.yaml": evalFile,
  "task.yaml": "id: one\ninputs: { prompt: x }\nexpected: { should_trigger: true }\n",
  "fixtures/src/a.ts": "1",
  "fixtures/.env": "A=b",
  "skills/triage/SKILL.md": "---\nname: triage\ndescription: x\n---\n",
  "trigger_tests.yaml": tests,
});
const options = { source: "eval.yaml" };

it("trigger tests beside an eval are tasks, each with all fixtures and no other grader", async () => {
  const { eval: spec, notes } = await loadIn(
    files(`skill: triage
should_trigger_prompts:
  - { prompt: "Sort {{.Vars.all}} {issues}.", reason: It is what it is for., confidence: high }
  - { prompt: Tidy up., confidence: medium }
should_not_trigger_prompts:
  - { prompt: What is the time?, confidence: "" }
`),
    options,
  );
  expect([notes, spec.thresholds]).toEqual([[], { trigger_accuracy: 0.8 }]);
  const told = spec.tasks.map(({ name, description, turns, graders = [], location, portable }) => ({
    name,
    description,
    users: turns.map(({ user }) => user),
    graders: graders.map(({ type, name: grader, weight, config }) => ({ type, grader, weight, config })),
    line: location?.line,
    fixtures: portable?.fixtures,
    tags: portable?.tags,
  }));
  const test = { description: undefined, fixtures: ["src"], tags: ["trigger"] };
  const grader = { type: "trigger", grader: "trigger_accuracy" };
  const positive = { skill: "triage", mode: "positive" };
  expect(told).toEqual([
    expect.objectContaining({
      name: "one",
      graders: [
        expect.objectContaining({ type: "behavior" }),
        { type: "trigger", grader: "expected.should_trigger", weight: 1, config: positive },
      ],
      fixtures: [],
    }),
    {
      ...test,
      name: "should-trigger-1",
      description: "It is what it is for.",
      users: ["Sort {{{{.Vars.all}}}} {{issues}}."],
      graders: [{ ...grader, weight: 2, config: positive }],
      line: 3,
    },
    {
      ...test,
      name: "should-trigger-2",
      users: ["Tidy up."],
      graders: [{ ...grader, weight: 1, config: positive }],
      line: 4,
    },
    {
      ...test,
      name: "should-not-trigger-1",
      users: ["What is the time?"],
      graders: [{ ...grader, weight: 2, config: { ...positive, mode: "negative" } }],
      line: 6,
    },
  ]);
});

it("should_trigger: false means that the skill must not be loaded", async () => {
  const task = "id: one\ninputs: { prompt: x }\nexpected: { should_trigger: false }\n";
  const tests = "skill: triage\nshould_trigger_prompts: [{ prompt: x }]\n";
  const { eval: spec } = await loadIn({ ...files(tests), "task.yaml": task }, options);
  expect(spec.tasks[0]?.graders?.[1]?.config).toEqual({ skill: "triage", mode: "negative" });
});

it.each([
  [
    "skill: x\n",
    '1:1 config/missing-key missing key "should_trigger_prompts": or write should_not_trigger_prompts',
  ],
  [
    "should_trigger_prompts: [{ prompt: y }]\n",
    '1:1 config/missing-key missing key "skill": or write server, or tool',
  ],
  [
    "skill: x\nserver: tracker\nshould_trigger_prompts: [{ prompt: y }]\n",
    "1:8 config/invalid-value skill must have no server or tool beside it",
  ],
  [
    "skill: x\nshould_trigger_prompts: [{ promt: y }]\n",
    '2:26 config/missing-key missing key "prompt" in should_trigger_prompts[0]: a string',
    '2:28 config/unknown-key unknown key "promt" in should_trigger_prompts[0]',
  ],
  [
    "skill: x\nshould_trigger_prompts: [{ prompt: y, confidence: low }]\n",
    '2:51 config/invalid-value should_trigger_prompts[0].confidence must be "", "high" or "medium"',
  ],
  [
    "server: trakcer\nshould_trigger_prompts: [{ prompt: y }]\n",
    '2:26 config/unknown-reference the grader "trigger_accuracy": no server is named "trakcer"',
  ],
  [
    "skill: [\n",
    "2:1 config/syntax Flow sequence in block collection must be sufficiently indented and end with a ]",
  ],
])("trigger tests that are wrong are refused: %j", async (tests, ...expected) => {
  expect((await problemsIn(files(tests), options)).toSorted()).toEqual(
    expected.map((problem) => `trigger_tests.yaml:${problem}`).toSorted(),
  );
});
