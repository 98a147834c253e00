import { expect, it } from "vitest";
import { hintsIn, wrongIn } from "../../../../test/support/task-file.ts";

const when = (condition: string): object => ({ verify: [{ command: { run: "x", if: condition } }] });
const place = "spec.verify[0].command.if";

it.each([
  ["{env.HOME} === x", "=== is not an operator", "A == B"],
  ["{env.HOME} !== x", "!== is not an operator", "A == B"],
  ["{env.HOME} = x", "= is not an operator", "A == B"],
  ["{env.HOME}=x", "= is not an operator", "A == B"],
  ["{env.HOME} < 5", "< is not an operator", "A == B"],
  ["{env.HOME} >= 5", ">= is not an operator", "A == B"],
  ["{env.HOME} && {workspace}", "&& is not an operator", "nest steps"],
  ["{env.HOME} == a && {workspace} == b", "&& is not an operator", "nest steps"],
  ["{env.HOME} == a || b", "|| is not an operator", "nest steps"],
  ["!{env.HOME}", "! is not an operator", "A == false"],
  ["! {env.HOME} == a", "! is not an operator", "A == false"],
  ["{env.HOME}==x", "== stands between two texts, once and with spaces around it", "A == B"],
  ["{env.HOME} ==", "== stands between two texts, once and with spaces around it", "A == B"],
  ["a == b != c", "!= stands between two texts, once and with spaces around it", "A == B"],
  ["{env.HOME} == 'pod'", "the quotes would be part of the text", "without quotes"],
  ['"{env.HOME}" != pod', "the quotes would be part of the text", "without quotes"],
  ["'{env.HOME}'", "the quotes would be part of the text", "without quotes"],
])("%s is not a valid condition", (condition, what, hint) => {
  expect(wrongIn(when(condition))).toEqual([
    `config/invalid-value at value ${place}: ${place} is not a valid condition: ${what}`,
  ]);
  expect(hintsIn(when(condition))).toEqual([expect.stringContaining(hint)]);
});

it.each([
  "{env.HOME}",
  "true",
  "{env.HOME} == pod",
  "{env.HOME} != it's",
  "{env.HOME | json $.a[?(@.b == 'c')]} == x",
  "{env.HOME} == <b>x=1</b>",
  "-> == a",
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
