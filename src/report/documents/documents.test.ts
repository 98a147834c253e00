import * as fc from "fast-check";
import { expect, it } from "vitest";
import { packRows, unpackRows } from "./documents.ts";

interface Row {
  readonly id: string;
  readonly verdict?: string;
  readonly score?: number;
}

it("unpacks the rows that were packed, whatever they have", () => {
  const row = fc.record(
    { id: fc.string(), verdict: fc.constantFrom("pass", "fail"), score: fc.integer() },
    { requiredKeys: ["id"] },
  ) as fc.Arbitrary<Row>;
  fc.assert(
    fc.property(fc.array(row, { maxLength: 40 }), (rows) => {
      const sent: unknown = JSON.parse(JSON.stringify(packRows(rows)));
      expect(unpackRows(sent as ReturnType<typeof packRows<Row>>)).toEqual(rows.map((each) => ({ ...each })));
    }),
  );
});

it("writes values that repeat once", () => {
  const rows = Array.from({ length: 8 }, (_, index): Row => {
    return { id: `t${index}`, verdict: "pass", ...(index < 4 ? { score: 1 } : {}) };
  });
  expect(packRows(rows)).toEqual({
    length: 8,
    columns: {
      id: { cells: rows.map(({ id }) => id) },
      verdict: { values: ["pass"] },
      score: { values: [1, null], at: [0, 0, 0, 0, 1, 1, 1, 1] },
    },
  });
});
