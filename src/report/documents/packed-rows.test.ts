import * as fc from "fast-check";
import { expect, it } from "vitest";
import { packRows, unpackRows } from "./packed-rows.ts";

interface Row {
  readonly id: string;
  readonly number?: number;
  readonly verdict?: string;
  readonly score?: number;
  readonly rate?: { readonly value?: number; readonly notes?: readonly (string | null)[] };
}

it("unpacks the rows that were packed, whatever they have", () => {
  const row = fc.record(
    {
      id: fc.oneof(fc.string(), fc.constantFrom("t7", "t8", "t09", "t10", "9", "10")),
      number: fc.integer({ min: 6, max: 9 }),
      verdict: fc.constantFrom("pass", "fail"),
      score: fc.double({ noDefaultInfinity: true, noNaN: true }).map((score) => score + 0),
      rate: fc.record(
        { value: fc.integer(), notes: fc.array(fc.constantFrom("note", null)) },
        { requiredKeys: [] },
      ),
    },
    { requiredKeys: ["id"] },
  ) as fc.Arbitrary<Row>;
  const few = fc.array(row, { maxLength: 40 });
  const repeated = few.map((rows) => rows.flatMap((each) => [each, each, each, each]));
  const counted = few.map((rows) => rows.map((each, index) => ({ ...each, id: `t${index}`, number: index })));
  fc.assert(
    fc.property(fc.oneof(few, repeated, counted), (rows) => {
      const sent: unknown = JSON.parse(JSON.stringify(packRows(rows)));
      const expected: unknown = JSON.parse(JSON.stringify(rows));
      expect(unpackRows(sent as ReturnType<typeof packRows<Row>>)).toEqual(expected);
    }),
  );
});

it("unpacks more rows than are looked at to decide how a column is written", () => {
  const rows = Array.from({ length: 5000 }, (_, index): Row => {
    return { id: `t${index % 3000}`, number: index % 7, rate: { value: index / 8, notes: ["note"] } };
  });
  const sent: unknown = JSON.parse(JSON.stringify(packRows(rows)));
  expect(unpackRows(sent as ReturnType<typeof packRows<Row>>)).toEqual(rows);
});

it("writes once what repeats, and what is one more in each row", () => {
  const rows = Array.from({ length: 8 }, (_, index): Row => {
    return {
      id: `t${index + 7}`,
      verdict: "pass",
      ...(index < 4 ? { score: 1 } : {}),
      rate: { value: index % 2 },
    };
  });
  expect(packRows(rows)).toEqual({
    length: 8,
    columns: {
      id: { prefix: "t", from: 7 },
      verdict: { values: ["pass"] },
      score: { values: [1, null], at: [0, 1], counts: [4, 4] },
      rate: { columns: { value: { values: [0, 1], at: [0, 1, 0, 1, 0, 1, 0, 1] } } },
    },
  });
});
