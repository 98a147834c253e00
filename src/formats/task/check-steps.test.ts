import { describe, expect, it } from "vitest";
import { check, hintsIn, problemsOf, taskDocument, wrongIn } from "../../../test/support/task-file.ts";

const said = "{agent.output}";

describe("a value from outside is refused", () => {
  it.each<[object, string]>([
    [{ command: { run: "test -d .", shell: said } }, "where a program is named"],
    [{ http: { url: "http://x", method: said } }, "where the method of a request is named"],
    [{ mcp: { server: "main", tool: said } }, "where a tool is named"],
    [
      { mcp: { tool: "a", expect: { schema: { $ref: `#/${said}` } } } },
      "in a pattern or a reference of a JSON Schema",
    ],
  ])("%j", (step, place) => {
    const problems = problemsOf(taskDocument({ prompt: "p", verify: [check, step] }));
    expect(problems).toEqual([expect.stringContaining(`which cannot be used ${place}`)]);
  });
});

it("an output of an HTTP step names one header", () => {
  const step = (output: string): object => ({ http: { url: "http://x", outputs: { a: output } } });
  const verify = [step("{response.headers.etag}"), step("{response.headers.etag.x}")];
  expect(problemsOf(taskDocument({ verify }))).toEqual([
    expect.stringContaining("spec.verify[1].http.outputs.a: {response.headers.etag.x} refers to nothing"),
  ]);
});

const when = (condition: string): object => ({ verify: [{ command: { run: "x", if: condition } }] });
const place = "spec.verify[0].command.if";

it.each([
  ["{env.HOME} !== x", "!== is not an operator", "A == B"],
  ["{env.HOME} = x", "= is not an operator", "A == B"],
  ["{env.HOME} >= 5", ">= is not an operator", "A == B"],
  ["{env.HOME} == a && {workspace} == b", "&& is not an operator", "nest steps"],
  ["{env.HOME} == a || b", "|| is not an operator", "nest steps"],
  ["!{env.HOME}", "! is not an operator", "A == false"],
  ["{env.HOME}==x", "== stands between two texts, once and with spaces around it", "A == B"],
  ["{env.HOME} ==", "== stands between two texts, once and with spaces around it", "A == B"],
  ["a == b != c", "!= stands between two texts, once and with spaces around it", "A == B"],
  ["{env.HOME} == 'pod'", "the quotes would be part of the text", "without quotes"],
  ['"{env.HOME}" != pod', "the quotes would be part of the text", "without quotes"],
])("%s is not a valid condition", (condition, what, hint) => {
  expect(wrongIn(when(condition))).toEqual([
    `config/invalid-value at value ${place}: ${place} is not a valid condition: ${what}`,
  ]);
  expect(hintsIn(when(condition))).toEqual([expect.stringContaining(hint)]);
});

it.each([
  "{env.HOME}",
  "{env.HOME} == pod",
  "{env.HOME} != it's",
  "{env.HOME | json $.a[?(@.b == 'c')]} == x",
  "{env.HOME} == <b>x=1</b>",
])("%s is a condition", (condition) => {
  expect(wrongIn(when(condition))).toEqual([]);
});

it("is looked at in every step, and an operation's too", () => {
  const inner = { command: { run: "x", if: "!a" } };
  expect(
    wrongIn({
      imports: [{ package: "npm:e@1", as: "e" }],
      verify: [{ allOf: [inner] }, { "e.do": { if: "a = b" } }, { group: { if: "a > b", steps: [inner] } }],
    }),
  ).toHaveLength(4);
});
