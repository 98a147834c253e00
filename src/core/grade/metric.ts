import * as z from "zod";
import { closedObject, optional } from "../formats/config/config-fields.ts";
import type { TrialMeasurements } from "../report/result.ts";
import { checksGrade, type GraderCheck, graderKind, nothingDone, skip } from "./grader.ts";
import { measure } from "./measurements/measure.ts";

/** A number of a trial that can be graded. */
interface Metric {
  readonly description: string;
  /** The part of the trial's measurements whose events show it. */
  readonly of: keyof TrialMeasurements;
  /** Undefined where there is nothing that it is a share of. */
  value(row: TrialMeasurements): number | undefined;
}

function counted(
  of: {
    [K in keyof TrialMeasurements]: TrialMeasurements[K] extends number ? K : never;
  }[keyof TrialMeasurements],
  description: string,
): Metric {
  return { of, description, value: (row) => row[of] };
}

function share(part: number, all: number): number | undefined {
  return all === 0 ? undefined : part / all;
}

/** What can be graded of the measurements of a trial, by name. */
const metrics = {
  unknownTools: counted("unknownTools", "calls of tools that do not exist"),
  invalidCalls: counted("invalidCalls", "calls with invalid arguments"),
  invalidCallRate: {
    of: "invalidCalls",
    description: "share of calls with invalid arguments",
    value: ({ invalidCalls, calls }) => share(invalidCalls, calls),
  },
  redundantCalls: counted("redundantCalls", "redundant calls"),
  redundantCallRate: {
    of: "redundantCalls",
    description: "share of calls that are redundant",
    value: ({ redundantCalls, calls }) => share(redundantCalls, calls),
  },
  errors: counted("errors", "failed calls of tools that exist"),
  errorRecoveryRate: {
    of: "recoveredErrors",
    description: "share of failed calls after which a call of the same tool succeeded",
    value: ({ recoveredErrors, errors }) => share(recoveredErrors, errors),
  },
  identicalRetries: counted("identicalRetries", "failed calls that were repeated unchanged"),
  definitionTokens: counted("definitionTokens", "tokens of the definitions of tools (estimate)"),
  unusedDefinitionTokens: counted(
    "unusedDefinitionTokens",
    "tokens of the definitions of tools that were not called (estimate)",
  ),
  unsupportedClaims: {
    of: "unsupportedClaims",
    description: "claims in the last message that the record does not show",
    value: ({ unsupportedClaims }) => unsupportedClaims.length,
  },
  ignoredErrors: {
    of: "ignoredErrors",
    description: "tools whose failure no message speaks of",
    value: ({ ignoredErrors }) => ignoredErrors.length,
  },
} as const satisfies Readonly<Record<string, Metric>>;

const names = Object.keys(metrics) as (keyof typeof metrics)[];

const config = closedObject({
  name: z.enum(names).describe("What is measured; see docs/measurements.md."),
  max: optional(z.number().min(0), "Highest value that passes."),
  min: optional(z.number().min(0), "Lowest value that passes."),
})
  .refine(({ max, min }) => max !== undefined || min !== undefined, { error: "must have max or min" })
  .refine(({ max = Infinity, min = 0 }) => min <= max, { error: "has a min above its max" });

/** Is a measurement of the trial inside its limits? Score = limits that hold / limits. */
export const metric = graderKind({
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
    const told = `${wanted.description}: ${Math.round(value * 1000) / 1000}`;
    const evidence = found.evidence[wanted.of] ?? [];
    const checks: readonly GraderCheck[] = [
      ...(max === undefined
        ? []
        : [{ passed: value <= max, reason: `${told}, at most ${max} allowed`, evidence }]),
      ...(min === undefined
        ? []
        : [{ passed: value >= min, reason: `${told}, at least ${min} wanted`, evidence }]),
    ];
    return checksGrade(checks, trajectory);
  },
});
