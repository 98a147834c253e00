import { array, assert, constantFrom, property } from "fast-check";
import { expect, it } from "vitest";
import { expandText } from "../../templates/expand.ts";
import { resolveIn, type Scope } from "../../templates/template.ts";
import { selectJson } from "../../templates/select-json.ts";
import { escapeJson, translateFieldPath, translateTemplate } from "./build-step.ts";

const roots = ["env", "random", "task", "steps", "agent", "workspace", "servers"];
const scope: Scope = new Map(roots.map((root) => [root, resolveIn({ X: `<${root}>` })]));

it.each([
  ["plain", "plain", false],
  ["{env.X}", "{env.X}", false],
  ["{ env.X }", "{env.X}", false],
  ["a ${X} b", "a {env.X} b", false],
  ['{"a": {env.X}}', '{{"a": {env.X}}}', true],
  ["{other}", "{{other}}", true],
  ["}", "}", true],
  ["$${X}", "$${{X}}", true],
  ["${env.X}", "${{env.X}}", true],
])("%j becomes %j", (text, template, hasText) => {
  const translate = (expression: string) => (expression === "env.X" ? expression : undefined);
  expect(translateTemplate(text, translate)).toEqual({ template, hasText });
});

it("leaves every text as it is when nothing means anything", () => {
  const piece = constantFrom("{", "}", "{{", "}}", "$", "env.X", "task", " ", "{agent.X}", "x");
  assert(
    property(array(piece), (pieces) => {
      const text = pieces.join("");
      expect(expandText(translateTemplate(text, () => undefined).template, scope)).toBe(text);
    }),
  );
});

it("replaces expressions between any texts", () => {
  const piece = array(constantFrom("{", "}", "x", " ", "\n")).map((pieces) => pieces.join(""));
  const translate = (expression: string) => (expression === "env.X" ? expression : undefined);
  assert(
    property(piece, piece, (before, after) => {
      const { template } = translateTemplate(`${before}{env.X}${after}`, translate);
      expect(expandText(template, scope)).toBe(`${before}<env>${after}`);
    }),
  );
});

it("escapes the texts in JSON", () => {
  expect(escapeJson({ a: ["{env.X}", 1, null], "{k}": true })).toEqual({
    a: ["{{env.X}}", 1, null],
    "{k}": true,
  });
});

it.each([
  ["", "$"],
  ["a.b[2]", "$.a.b[2]"],
  ["a.0", '$.a["0"]'],
  ["a[1][02]", "$.a[1][2]"],
  [".a", "$.a"],
  ["$ref", '$["$ref"]'],
  ["a.b-c", '$.a["b-c"]'],
  ['a."x"', '$.a["\\"x\\""]'],
])("%j is %s", (path, expected) => {
  expect(translateFieldPath(path)).toBe(expected);
  expect(() => selectJson({}, expected)).not.toThrow();
});

it.each(["a..b", "a[", "a[x]", "a[*]", "a]", "a[0]b", "a."])("%j is no path", (path) => {
  expect(translateFieldPath(path)).toBeUndefined();
});
