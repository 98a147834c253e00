import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { numbersInText } from "./expected-result.ts";

describe("numbersInText", () => {
  it.each<[string, number[]]>([
    ["5 + 3 = 8", [5, 3, 8]],
    ["5+3=8", [5, 3, 8]],
    ["The sum of 2 and 3 is 5.", [2, 3, 5]],
    ["sum:8", [8]],
    ["sum=8;", [8]],
    ["(8)", [8]],
    ["[8]", [8]],
    ['"8"', [8]],
    ["8!", [8]],
    ["8: eight", [8]],
    ["结果是8。", [8]],
    ["-4", [-4]],
    ["−4", [-4]],
    ["(-4)", [-4]],
    ["x = -4", [-4]],
    ["–4", [-4]],
    ["－4", [-4]],
    ["5 - -3 = 8", [5, -3, 8]],
    ["1\u202f234,5", [1234, 5]],
    ["1\u00a0234 and 5\u00a06", [1234, 5, 6]],
    ["3\u200b4", [34]],
    ["3\u00ad4", [34]],
    ["3\u00854", [34]],
    ["\u001b[31mred\u001b[0m", []],
    ["\u001b[31m5\u001b[0m", [5]],
    ["\u009b31m5", [5]],
    ["\u001b]8;;http://127.0.0.1/31\u001b\\5\u001b]8;;\u001b\\", [5]],
    ["+8", [8]],
    ["1,234.5", [1234.5]],
    ["1,234,567", [1_234_567]],
    ["12,34", [12, 34]],
    ["1,2345", [1, 2345]],
    ["1000,200", [1000, 200]],
    ["1, 2, 3", [1, 2, 3]],
    ["0.1", [0.1]],
    [".5 or -.5", [0.5, -0.5]],
    ["1e3", [1000]],
    ["1.5E-3", [0.0015]],
    ["1e999", []],
    ["$3.50, 4 € and 50%", [3.5, 4, 50]],
    ["20°C", [20]],
    ["issue #12", [12]],
    ["", []],
    ["none", []],
  ])("finds those in %j", (text, numbers) => {
    expect(numbersInText(text)).toEqual(numbers);
  });

  it.each([
    "v1.2.3",
    "1.2.3",
    "10.0.0.1",
    "2024-01-15",
    "2024-01-15T10:30:00Z",
    "10:30",
    "1/2/2024",
    "3/4",
    "8/10",
    "5-3",
    "5–3",
    "3٤",
    "٣4",
    "３4",
    "5²",
    "5½",
    "3.٤",
    "3·5",
    "3．5",
    "3٫5",
    "555-1234",
    "gpt-4",
    "x-5",
    "utf8",
    "user_8",
    "8_000",
    "1'000",
    "0x1F",
    "550e8400-e29b-41d4-a716-446655440000",
    "https://example.com/items/8",
  ])("finds none in %j", (text) => {
    expect(numbersInText(text)).toEqual([]);
  });

  it.each<[string, number[]]>([
    ["took 5ms", [5]],
    ["1,234.5kg", [1234.5]],
    ["22C", [22]],
    ["8 took 5ms", [8]],
    ["8 is the 3rd result of v1.2.3 on 2024-01-15", [8]],
  ])("counts a unit that touches its number only without others: %j", (text, numbers) => {
    expect(numbersInText(text)).toEqual(numbers);
  });

  it("finds any number as JavaScript writes it, between words", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(numbersInText(`The result is ${value}.`)).toEqual([Number(String(value))]);
        expect(numbersInText(`The result is ${value}, says the tool`)).toEqual([Number(String(value))]);
      }),
    );
  });

  it("finds whole numbers with their thousands set apart", () => {
    fc.assert(
      fc.property(fc.integer(), (value) => {
        expect(numbersInText(`total ${value.toLocaleString("en")} items`)).toEqual([value]);
      }),
    );
  });

  it("gets to an end with numbers of megabytes", () => {
    const digits = "1".repeat(12_000_000);
    expect(numbersInText(`${digits} 0.${digits} 1e${digits} 8`)).toEqual([8]);
    expect(numbersInText(`1${",111".repeat(3_000_000)} 8`).at(-1)).toBe(8);
  });

  it.each(["1", "1,", "1.", "1e", "1-", "1,111", ".", "-", "1,111,"])(
    "takes time in proportion to many %j",
    (piece) => {
      const start = performance.now();
      numbersInText(piece.repeat(Math.ceil(1_000_000 / piece.length)));
      expect(performance.now() - start).toBeLessThan(5000);
    },
  );
});
