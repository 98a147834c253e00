import { expect, it } from "vitest";
import { selectJson } from "../../templates/select-json.ts";
import { translateFieldPath } from "./expressions.ts";

it.each([
  ["", "$"],
  ["a", "$.a"],
  ["a.b[2]", "$.a.b[2]"],
  ["[0].text", "$[0].text"],
  ["a.0", '$.a["0"]'],
  ["a[1][02]", "$.a[1][2]"],
  ["$.a", "$.a"],
  ["$", "$"],
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
