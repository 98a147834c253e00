import * as fc from "fast-check";
import { expect, it } from "vitest";
import { maxDurationMs, parseGoDuration } from "../duration.ts";
import { goDurationText } from "./protocol.ts";

it.each<[number, string]>([
  [90_000, "90s"],
  [1500, "1500ms"],
  [0.5, "500000ns"],
  [1e-9, "1ns"],
  [0, "0s"],
  [-5, "0s"],
  [Number.NaN, "0s"],
])("%d ms is %j", (ms, text) => {
  expect(goDurationText(ms)).toBe(text);
});

it("is read as the same time again", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: maxDurationMs }), (ms) => {
      expect(parseGoDuration(goDurationText(ms))).toBeCloseTo(ms, 6);
    }),
  );
});
