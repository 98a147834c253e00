import { beforeAll, describe, expect, it } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import type { TrialResult } from "../../src/core/report/result.ts";
import { evaluate } from "../../src/evaluate.ts";
import { fixtureServer, toolTest, trialOf } from "./support.ts";

type ToolTest = NonNullable<Config["toolHealthSuites"]>[number]["tests"][number];
type State = NonNullable<NonNullable<Config["workflows"]>[number]["steps"][number]["expectedState"]>;

const echo = (message: string): Pick<ToolTest, "name" | "args"> => ({ name: "echo", args: { message } });
const document = echo('{"status": "ok", "items": [1, 2]}');

describe("expect of a tool test", () => {
  const tests: readonly [verdict: string, says: string, test: ToolTest][] = [
    ["pass", "text contains", { ...echo("all is well"), expect: { text: { contains: "is" } } }],
    ["pass", "text matches", { ...echo("v1.2.3"), expect: { text: { matches: "^v\\d" } } }],
    ["fail", "text equals", { ...echo("v1.2.3"), expect: { text: "v1.2" } }],
    ["pass", "json $ equals", { ...document, expect: { json: { equals: { status: "ok", items: [1, 2] } } } }],
    ["fail", "json $ equals", { ...document, expect: { json: { equals: { status: "ok" } } } }],
    ["pass", "json $.status equals", { ...document, expect: { json: { path: "status", equals: "ok" } } }],
    ["fail", "does not fit the schema", { ...document, expect: { schema: { required: ["count"] } } }],
    ["pass", "failed as expected", { name: "fail", expect: { isError: true } }],
    ["pass", "failed as expected", { name: "refuse", expect: { isError: true } }],
    ["pass", "text contains", { name: "fail", expect: { isError: true, text: { contains: "wrong" } } }],
    ["fail", "expected an error, it succeeded", { ...document, expect: { isError: true } }],
    ["fail", "crash gave no result", { name: "crash", args: { code: 1 }, expect: { isError: true } }],
    ["fail", "no-object gave no result", { name: "no-object", expect: { isError: true } }],
    [
      "pass",
      "result",
      { ...document, expectedResult: { status: "ok" }, expect: { text: { contains: "items" } } },
    ],
  ];
  let trials: readonly TrialResult[];
  beforeAll(async () => {
    const titled = tests.map(([, , test], index) => ({ ...test, description: `test ${index}` }));
    const suite = { name: "s", parallel: true, tests: titled };
    trials = (await evaluate({ server: fixtureServer(), toolHealthSuites: [suite] }, { output: false }))
      .trials;
  });

  it.each(tests.map(([verdict, says, test], index) => [verdict, says, test, index] as const))(
    "%s, %s: %j",
    (verdict, says, _, index) => {
      const trial = trials.find(({ task }) => task === `s/test ${index}`);
      const reasons = trial?.grades.map(({ reason }) => reason).join("; ");
      expect([trial?.verdict, reasons]).toEqual([verdict, expect.stringContaining(says)]);
    },
  );

  it.each<[Partial<ToolTest>, string]>([
    [{ expect: { text: { matches: "(" } } }, "expect.text.matches"],
    [{ expect: { json: { path: "$[" } } }, "is not a valid JSON path"],
    [{ expect: { isError: true }, expectedResult: 5 }, "isError is true, which contradicts expectedResult"],
    [
      { expect: { isError: false }, expectedError: "no" },
      "isError is false, which contradicts expectedError",
    ],
  ])("is refused where it cannot hold: %j", async (test, message) => {
    await expect(evaluate(toolTest("add", test), { output: false })).rejects.toThrow(message);
  });
});

describe("expectedState", () => {
  /** A turn in which a tool answers with `result`, and the agent with `answer`. */
  async function play(expectedState: State, result: string, answer: string): Promise<TrialResult> {
    const plan = { w: [{ call: "echo", args: { message: result } }, { say: answer }] };
    const config: Config = {
      server: fixtureServer(),
      agent: { type: "scripted", plan },
      workflows: [{ name: "w", steps: [{ user: "Go.", expectedState }] }],
    };
    return trialOf(await evaluate(config, { output: false }), "w");
  }

  it.each<[State, string, string, string, string]>([
    [
      { contains: "five", in: "answer" },
      "five",
      "It is five.",
      "pass",
      'the last assistant message contains "five"',
    ],
    [
      { contains: "five", in: "answer" },
      "five",
      "Done.",
      "fail",
      'the last assistant message contains "five"',
    ],
    [
      { contains: "five", in: "toolResult" },
      "five",
      "Done.",
      "pass",
      'the last tool result (echo) contains "five"',
    ],
    [
      { contains: "five", in: "toolResult" },
      "six",
      "five",
      "fail",
      'the last tool result (echo) contains "five"',
    ],
    [{ contains: "cat", wholeWord: true }, "concatenate", "A category.", "fail", 'contains the word "cat"'],
    [{ contains: "cat", wholeWord: true }, "-", "A Cat.", "pass", 'contains the word "cat"'],
    [{ equals: "five" }, "-", "five\n", "pass", 'equals "five"'],
    [{ equals: "five" }, "-", "It is five.", "fail", 'equals "five"'],
    [{ matches: "^\\d+ files$" }, "12 files", "12 files", "pass", "matches"],
    [{ contains: "12", matches: "files" }, "12", "files", "fail", 'contains "12" and matches "files"'],
    [{ contains: "5" }, "15", "15", "fail", 'contains "5"'],
  ])("%j of the result %j and the answer %j: %s", async (state, result, answer, verdict, says) => {
    const { grades } = await play(state, result, answer);
    const grade = grades.find(({ grader }) => grader === "end-to-end-success");
    expect([grade?.verdict, grade?.reason]).toEqual([verdict, expect.stringContaining(says)]);
  });

  it("that only the tool's result meets is a warning with both texts, unless the file says that this is enough", async () => {
    const { verdict, warnings } = await play("42", "The sum is 42.", "I do not know.");
    expect([verdict, warnings]).toEqual([
      "pass",
      [
        'turn 1: expectedState "42" is only in the result of echo, "The sum is 42.", and not in the answer, "I do not know."; say where it must be with in: answer, toolResult or any',
      ],
    ]);
    const accepted = await play({ contains: "42", in: "any" }, "The sum is 42.", "I do not know.");
    expect([accepted.verdict, accepted.warnings]).toEqual(["pass", undefined]);
  });

  it.each<[object, string]>([
    [{}, "must have contains, equals or matches"],
    [{ equals: "x", wholeWord: true }, "wholeWord, which needs contains"],
    [{ matches: "(" }, "is not a valid RE2 pattern"],
    [{ contains: "Go" }, "so an agent that repeats it would pass"],
  ])("%j is refused", async (state, message) => {
    const config = {
      server: fixtureServer(),
      agent: { type: "scripted", plan: { w: [{ say: "x" }] } },
      workflows: [{ name: "w", steps: [{ user: "Go.", expectedState: state as State }] }],
    } as const;
    await expect(evaluate(config as unknown as Config, { output: false })).rejects.toThrow(message);
  });
});
