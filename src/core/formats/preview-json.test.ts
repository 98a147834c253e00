import * as fc from "fast-check";
import { expect, it } from "vitest";
import { previewJson } from "./read-json.ts";

it("is the beginning of the JSON, or all of a short one", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.integer({ min: 1, max: 60 }), (value, limit) => {
      const whole = JSON.stringify(value);
      expect(previewJson(value, limit)).toBe(
        whole.length > limit ? `${[...Array(limit).keys()].map((index) => whole[index]).join("")}…` : whole,
      );
    }),
  );
});

it("ends with values that are large or nested without end", () => {
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level += 1) deep = [{ deep }];
  expect(previewJson(deep, 10)).toBe('[{"deep":[…');
  expect(previewJson("x".repeat(10_000_000), 5)).toBe('"xxxx…');
});
