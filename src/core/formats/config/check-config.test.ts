import * as fc from "fast-check";
import { expect, it } from "vitest";
import { uniqueTitles } from "./check-config.ts";

it.each([
  [
    ["a", "b"],
    ["a", "b"],
  ],
  [
    ["a", "a", "a"],
    ["a", "a (2)", "a (3)"],
  ],
  [
    ["a", "a (2)", "a"],
    ["a", "a (2)", "a (3)"],
  ],
  [
    ["a", "a", "a (2)"],
    ["a", "a (2)", "a (2) (2)"],
  ],
])("makes of %j %j", (titles, unique) => {
  expect(uniqueTitles(titles)).toEqual(unique);
});

it("always gives as many different titles as it got", () => {
  const title = fc.constantFrom("a", "b", "a (2)", "a (3)", "a (2) (2)");
  fc.assert(
    fc.property(fc.array(title), (titles) => {
      const unique = uniqueTitles(titles);
      expect(unique).toHaveLength(titles.length);
      expect(new Set(unique).size).toBe(titles.length);
    }),
  );
});
