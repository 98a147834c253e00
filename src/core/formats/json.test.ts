import { expect, it } from "vitest";
import { formatKeyPath, valueAt } from "./json.ts";

it.each([
  [[], ""],
  [["workflows", 0, "steps", 1, "user"], "workflows[0].steps[1].user"],
  [["agents", "my agent", "model"], 'agents["my agent"].model'],
  [["servers", "a-b"], "servers.a-b"],
  [["$schema"], "$schema"],
  [[3, "a"], "[3].a"],
  [["env", ""], 'env[""]'],
  [["1a"], '["1a"]'],
])("writes %j as %s", (path, text) => {
  expect(formatKeyPath(path)).toBe(text);
});

it("finds values by their own members only", () => {
  const document = { a: [{ b: null }] };
  expect(valueAt(document, [])).toBe(document);
  expect(valueAt(document, ["a", 0, "b"])).toBeNull();
  expect(valueAt(document, ["a", 1, "b"])).toBeUndefined();
  expect(valueAt(document, ["a", "length"])).toBe(1);
  expect(valueAt(document, ["toString"])).toBeUndefined();
  expect(valueAt("text", [0])).toBeUndefined();
});
