import * as fc from "fast-check";
import { expect, it } from "vitest";
import { jsonExcess, JsonMeter, mostMemory } from "./read-json.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

it("measures any JSON, in pieces of any size, as it is nested", () => {
  fc.assert(
    fc.property(
      fc.jsonValue(),
      fc.integer({ min: 1, max: 7 }),
      fc.constantFrom(undefined, 2),
      (value, size, indent) => {
        const text = bytes(JSON.stringify(value, undefined, indent));
        const whole = new JsonMeter().push(text);
        expect(whole.deepest).toBe(depthOf(value));
        const pieces = new JsonMeter();
        for (let start = 0; start < text.length; start += size)
          pieces.push(text.subarray(start, start + size));
        expect([pieces.deepest, pieces.weight]).toEqual([whole.deepest, whole.weight]);
      },
    ),
  );
});

it("takes what stands in texts for nothing but text", () => {
  const text = String.raw`"[[{,\"[\\\",\\"`;
  expect(new JsonMeter().push(bytes(text))).toMatchObject({ deepest: 0, weight: text.length });
});

it("refuses what is nested too deeply and what would take too much memory, not a long text", () => {
  const levels = 400;
  const excess = (text: string): unknown => jsonExcess(bytes(text), { levels });
  expect(excess(`${"[".repeat(100_000)}${"]".repeat(100_000)}`)).toBe("deep");
  expect(excess(`[${"{},".repeat(mostMemory / 80)}0]`)).toBe("heavy");
  expect(excess(`"${"[".repeat(20_000_000)}"`)).toBeUndefined();
  expect(excess("[".repeat(500))).toBeUndefined();
});
