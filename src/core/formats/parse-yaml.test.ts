import { expect, it } from "vitest";
import { parseStrictYaml } from "./parse-yaml.ts";

it("reads what YAML there is", async () => {
  expect(await parseStrictYaml("a: 1\nb: [&x {c: d}, *x]\n1: e\n")).toEqual({
    a: 1,
    b: [{ c: "d" }, { c: "d" }],
    1: "e",
  });
  expect(await parseStrictYaml("")).toBeNull();
});

it.each([
  ["a: {b: 1,\n  b: 2}", 'duplicate key "b", again at line 2, column 3'],
  ['- 1: x\n  "1": y', 'duplicate key "1", again at line 2, column 3'],
  ["a: [", /Flow sequence/],
  ["a: &x [1]\nb: [*y]", /Unresolved alias/],
])("refuses %j", async (text, message) => {
  await expect(parseStrictYaml(text)).rejects.toThrow(message);
});

it("reads many keys in time linear to them", async () => {
  const keys = Array.from({ length: 40_000 }, (_, index) => `k${index}: {}`);
  expect(Object.keys((await parseStrictYaml(`{${keys.join(", ")}}`)) as object)).toHaveLength(40_000);
}, 30_000);
