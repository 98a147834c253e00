import type { Fault, ServerSpec } from "../../core/formats/model.ts";
import { allowListFilter } from "./allow-list.ts";
import { createFaults } from "./faults.ts";
import type { Filter, FilterContext } from "./filter-chain.ts";
import { RateLimiter, rateLimitFilter } from "./rate-limit.ts";

export interface FiltersOptions {
  /** Seed of the random numbers of faults, together with the server's name; the same for one trial in each run. */
  readonly seed: string;
  /** Shared by all trials that share the server; absent: this trial has one of its own. */
  readonly limiter?: RateLimiter | undefined;
}

/**
 * Creates the filters of one trial and server, in order from the client to the server: allow-list, faults, rate limit. The
 * connections of a trial share what is counted.
 */
export function createFilters(spec: ServerSpec, { seed, limiter }: FiltersOptions): TrialFilters {
  const { tools, faults = [], rateLimit } = spec;
  const trialFaults = createFaults(faults, seed);
  const limit = rateLimit === undefined ? undefined : (limiter ?? new RateLimiter(rateLimit));
  return {
    of: (context) => [
      ...(tools === undefined ? [] : [allowListFilter(tools, context)]),
      ...(faults.length === 0 ? [] : [trialFaults.of(context)]),
      ...(limit === undefined ? [] : [rateLimitFilter(limit, context)]),
    ],
    unmetFaults: () => trialFaults.unmet(),
  };
}

/** The filters between an agent and a server in one trial. */
export interface TrialFilters {
  /** Creates the filters of one connection. */
  readonly of: (context: FilterContext) => readonly Filter[];
  /** Faults that no request has matched. */
  unmetFaults(): readonly Fault[];
}

/** Whether a server has filters. */
export function hasFilters({ tools, faults = [], rateLimit }: ServerSpec): boolean {
  return tools !== undefined || faults.length > 0 || rateLimit !== undefined;
}
