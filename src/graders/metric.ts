import * as z from "zod";
import { closedObject, optional } from "../model/fields.ts";
import { holdsForAll } from "../expect/weak-expectations.ts";
import { checksGrade, type GraderCheck, declaredKind, nothingDone, skip } from "./grader.ts";
import { measure } from "./measurements/measure.ts";
import { type Metric, metricOf, metrics } from "./measurements/metrics.ts";

const names = Object.keys(metrics) as (keyof typeof metrics)[];

const config = z.lazy(() =>
  closedObject({
    name: z.enum(names).describe("What is measured; see docs/measurements.md."),
    max: optional(z.number().min(0), "Highest value that passes."),
    min: optional(z.number().min(0), "Lowest value that passes."),
  })
    .refine(({ max = Infinity, min = 0 }) => min <= max, { error: "has a min above its max" })
    .refine(({ name, ...limits }) => !holdsForAll(limits, metricOf(name)?.isShare === true ? 1 : Infinity), {
      error: "must have a max or min that a value could miss: none is below 0, and no share above 1",
    }),
);

/** Is a measurement of the trial inside its limits? Score = limits that hold / limits. */
export const metric = declaredKind({
  type: "metric",
  description: "Limits of a measurement of the trial. Where there is nothing to measure, it is skipped.",
  config,
  example: { name: "redundantCalls", max: 1 },
  grade({ name, max, min }, trajectory) {
    const nothing = nothingDone(trajectory);
    if (nothing !== undefined) return skip(nothing);
    const found = measure(trajectory);
    const wanted: Metric = metrics[name];
    const value = found && wanted.value(found.row);
    if (found === undefined || value === undefined)
      return skip(`nothing to measure: ${wanted.description}`, found?.evidence[wanted.of]);
    const measured = `${wanted.description}: ${Math.round(value * 1000) / 1000}`;
    const evidence = found.evidence[wanted.of] ?? [];
    const checks: GraderCheck[] = [];
    if (max !== undefined)
      checks.push({ passed: value <= max, reason: `${measured}, at most ${max} allowed`, evidence });
    if (min !== undefined)
      checks.push({ passed: value >= min, reason: `${measured}, at least ${min} wanted`, evidence });
    // Without a call, none could have exceeded a limit.
    if (found.row.calls === 0 && wanted.withoutCalls === undefined && checks.every(({ passed }) => passed))
      return skip(`nothing to measure: ${wanted.description}, and the agent called no tool of a server`);
    return checksGrade(checks, trajectory);
  },
});
