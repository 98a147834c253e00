import { expect, it } from "vitest";
import { hasUnknown, knownArguments, unknownValue } from "./check-uses.ts";

it("keeps what has no template as the operation will get it", () => {
  const args = { a: "x", b: [1, { c: "{{env.X}}" }], d: '{"json": 1}', e: "${shell}" };
  expect(knownArguments(args)).toEqual({ ...args, b: [1, { c: "{env.X}" }] });
  expect(hasUnknown(knownArguments(args))).toBe(false);
});

it("marks every text with a template, also one of a foreach", () => {
  expect(knownArguments({ a: "at {workspace}/x", b: ["{item}", "{steps.a.outputs.b | json}"] })).toEqual({
    a: unknownValue,
    b: [unknownValue, unknownValue],
  });
  expect(hasUnknown({ a: { b: [unknownValue] } })).toBe(true);
});
