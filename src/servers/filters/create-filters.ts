import type { Fault, ServerSpec } from "../../core/formats/model.ts";
import { allowListFilter } from "./allow-list.ts";
import { createFaults } from "./faults.ts";
import type { Filter, FilterContext } from "./filter-chain.ts";
import { RateLimiter, rateLimitFilter } from "./rate-limit.ts";

export interface FiltersOptions {
  /** Begins the random numbers of faults, together with the server's name; of one trial, the same in each run. */
  readonly seed: string;
  /** Shared by all trials that share the server; absent: this trial has one of its own. */
  readonly limiter?: RateLimiter | undefined;
}

/**
 * Makes what makes the filters of each connection between an agent and a server, from the client on: allow-list, faults,
 * rate limit. To be called once for each trial and server: its connections share what is counted in a trial.
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

/** What stands between an agent and a server in one trial. */
export interface TrialFilters {
  /** Makes the filters of one connection, from the client on. */
  readonly of: (context: FilterContext) => readonly Filter[];
  /** Faults that were to happen and met no request that they fit. */
  unmetFaults(): readonly Fault[];
}

/** Whether anything stands between agents and this server. */
export function hasFilters({ tools, faults = [], rateLimit }: ServerSpec): boolean {
  return tools !== undefined || faults.length > 0 || rateLimit !== undefined;
}
