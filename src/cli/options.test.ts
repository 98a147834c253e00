import { describe, expect, it } from "vitest";
import { duration } from "./flags.ts";

describe("a duration on the command line", () => {
  it.each([
    ["500ms", 500],
    ["5s", 5000],
    ["1.5m", 90_000],
    ["2 h", 7_200_000],
  ])("%s", (text, ms) => {
    expect(duration(text)).toBe(ms);
  });

  it.each(["5", " 30 ", "0.5", "1000"])("needs a unit: %j", (text) => {
    const number = text.trim();
    expect(() => duration(text)).toThrow(`Give it a unit: ${number}s, ${number}m or ${number}ms.`);
  });

  it.each(["", "0s", "-5s", "soon", "5x", "100d"])("is refused: %j", (text) => {
    expect(() => duration(text)).toThrow("Give a duration such as 500ms, 2s or 5m.");
  });
});
