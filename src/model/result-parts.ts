import * as z from "zod";

// What results, comparisons and baselines share.

export const count = z.int().min(0);
export const milliseconds = z.number().min(0);
export const share = z.number().min(0).max(1);

export const intervalSchema = z
  .strictObject({
    value: share.describe("The rate."),
    low: share.describe("Lower end of its 95 % interval."),
    high: share.describe("Upper end."),
  })
  .meta({ id: "Interval", description: "A pass rate with its 95 % interval; docs/statistics.md says how." });
