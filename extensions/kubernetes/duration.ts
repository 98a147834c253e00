import * as z from "zod";

const units: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** A duration as arguments have it: a text such as `60s`, `1m30s`, `500ms`, or a number of milliseconds. */
export const duration: z.ZodType<string | number> = z.union([
  z.string().regex(/^(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+$/),
  z.number().positive(),
]);

/** How long to wait. A task of our own form has no such argument: there `timeout` is the step's. */
export const waitingTime: z.ZodOptional<typeof duration> = duration
  .optional()
  .describe("How long to wait. Default: as long as the step may take.");

/** The milliseconds of a duration. */
export function milliseconds(value: string | number): number {
  if (typeof value === "number") return value;
  const parts = [...value.matchAll(/(\d+\.?\d*|\.\d+)([a-zµ]+)/g)];
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * (units[unit ?? ""] ?? Number.NaN), 0);
}

/** A duration for a message: `90s`, `500ms`. */
export function durationText(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)}ms` : `${Math.round(ms / 100) / 10}s`;
}
