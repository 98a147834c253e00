import type { TrialMeasurements } from "../../model/result.ts";

// The browser app has this table, so it imports no schemas.

/** A number of a trial that graders and thresholds compare. */
export interface Metric {
  readonly description: string;
  /** The part of the trial's measurements whose events show it. */
  readonly of: keyof TrialMeasurements;
  /** More is better; else less is. */
  readonly isGood?: true;
  /** It is a share, at most 1. */
  readonly isShare?: true;
  /** It can be measured for an agent that called nothing. */
  readonly withoutCalls?: true;
  /** Undefined for a share of nothing, and where it is not known. */
  value(row: TrialMeasurements): number | undefined;
}

function counted(
  of: {
    [K in keyof TrialMeasurements]-?: TrialMeasurements[K] extends number | undefined ? K : never;
  }[keyof TrialMeasurements],
  description: string,
  rest: Pick<Metric, "withoutCalls"> = {},
): Metric {
  return { of, description, value: (row) => row[of], ...rest };
}

function share(part: number | undefined, all: number): number | undefined {
  return all === 0 || part === undefined ? undefined : part / all;
}

/** The metrics that graders and thresholds can compare, by name. */
export const metrics = {
  unknownTools: counted("unknownTools", "calls of tools that do not exist"),
  invalidCalls: counted("invalidCalls", "calls with invalid arguments"),
  invalidCallRate: {
    of: "invalidCalls",
    isShare: true,
    description: "share of calls with invalid arguments",
    value: ({ invalidCalls, calls }) => share(invalidCalls, calls),
  },
  redundantCalls: counted("redundantCalls", "redundant calls"),
  redundantCallRate: {
    of: "redundantCalls",
    isShare: true,
    description: "share of calls that are redundant",
    value: ({ redundantCalls, calls }) => share(redundantCalls, calls),
  },
  errors: counted("errors", "failed calls of tools that exist"),
  errorRecoveryRate: {
    of: "recoveredErrors",
    isGood: true,
    isShare: true,
    description: "share of failed calls after which a call of the same tool succeeded",
    value: ({ recoveredErrors, errors }) => share(recoveredErrors, errors),
  },
  identicalRetries: counted("identicalRetries", "failed calls that were repeated unchanged"),
  definitionTokens: counted("definitionTokens", "tokens of the definitions of tools (estimate)", {
    withoutCalls: true,
  }),
  unusedDefinitionTokens: counted(
    "unusedDefinitionTokens",
    "tokens of the definitions of tools that were not called (estimate)",
    { withoutCalls: true },
  ),
  unsupportedClaims: {
    of: "unsupportedClaims",
    withoutCalls: true,
    description: "claims in the last message that the record does not show",
    value: ({ unsupportedClaims }) => unsupportedClaims?.length,
  },
  ignoredErrors: {
    of: "ignoredErrors",
    description: "tools whose failure no message speaks of",
    value: ({ ignoredErrors }) => ignoredErrors.length,
  },
} as const satisfies Readonly<Record<string, Metric>>;

/** The shares of what servers list that trials used, by the name of their threshold. */
const coverageMeasures = {
  toolCoverage: "tools",
  parameterCoverage: "parameters",
  resourceCoverage: "resources",
  promptCoverage: "prompts",
} as const;

/** Name of the threshold that compares the lower bound of the pass rate; like `passRate` it decides about failed trials. */
export const lowerBound = "lowerBound";

/** Name of the threshold of the pass rate without passes by a tool's result only. */
export const answerRate = "answerRate";

/** The values of a whole run that thresholds can compare, besides graders and measurements: shares, and a mean from 0 to 1. */
export const runMeasures: readonly string[] = [
  "score",
  "passRate",
  lowerBound,
  answerRate,
  ...Object.keys(coverageMeasures),
];

/** Name of the threshold of the mean cost of a trial. */
export const maxCost = "maxCost";
/** Name of the threshold of the 95th percentile of the latency of calls, in milliseconds. */
export const maxP95Latency = "maxP95Latency";
/** The values of a run of which a threshold is the highest that passes, and which may be above 1. */
export const runLimits: readonly string[] = [maxCost, maxP95Latency];

/** What the threshold of a name covers; undefined: nothing. */
export function coveredKind(
  name: string,
): (typeof coverageMeasures)[keyof typeof coverageMeasures] | undefined {
  return Object.hasOwn(coverageMeasures, name)
    ? coverageMeasures[name as keyof typeof coverageMeasures]
    : undefined;
}

/** A measured value with the threshold that it is compared with. */
interface Measured {
  readonly value: number;
  readonly threshold: number;
  /** Lower is better; else higher is. */
  readonly atMost?: boolean | undefined;
}

/** A measured value with three digits, rounded so that it stays on its side of the threshold. */
export function roundMeasured({ value, threshold, atMost }: Measured): number {
  const passes = (each: number): boolean => (atMost === true ? each <= threshold : each >= threshold);
  const thousandths = Math.round(value * 1000);
  const nearest = thousandths / 1000;
  if (passes(nearest) === passes(value)) return nearest;
  return (thousandths + (nearest > value ? -1 : 1)) / 1000;
}

/** The metric of a name; undefined: none. */
export function metricOf(name: string): Metric | undefined {
  return Object.hasOwn(metrics, name) ? metrics[name as keyof typeof metrics] : undefined;
}
