import { type CheckOptions, planCheck } from "../check/plan-check.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { run, type RunInput, type RunOptions, type RunOutcome } from "./run.ts";

/** How long a request of a check may take unless it is said, in milliseconds. */
export const defaultCallMs = 5000;

/** Trials at once: more would disturb each other's time limits on a small machine. */
const concurrency = 2;

/** What is checked, besides how a run is made. */
export type CheckServersOptions = Omit<CheckOptions, "validateSchema" | "signal"> &
  RunOptions & { readonly signal: AbortSignal };

/**
 * Checks the servers of a loaded eval: asks what they offer, plans the check, and runs it. Throws as `run`, and McpvalsError for a
 * server that cannot be started or reached.
 */
export async function checkServers(loaded: RunInput, options: CheckServersOptions): Promise<RunOutcome> {
  const { eval: spec } = loaded;
  const { callMs, signal } = options;
  await using validator = new SchemaValidator();
  const validateSchema = validator.validate.bind(validator);
  const tasks = await planCheck(spec.servers, { ...options, validateSchema, signal });
  const limits = { ...spec.limits, callMs };
  return run({ ...loaded, eval: { ...spec, tasks, agents: [], concurrency, limits } }, options);
}
