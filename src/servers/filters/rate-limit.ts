import { requestCancelled } from "./filter-signal.ts";
import type { Filter, FilterContext } from "./filter.ts";
import { requestOf } from "./messages.ts";
import type { RateLimiter } from "./rate-limiter.ts";

/**
 * Keeps requests waiting while the server has got as many as it may get. How long one waited is recorded as
 * `request.held`, also when the client took it back.
 */
export function rateLimitFilter(limiter: RateLimiter, { server, client, emit }: FilterContext): Filter {
  const who = { server, ...(client === undefined ? {} : { client }) };
  return {
    fromClient(wire, signal) {
      const request = requestOf(wire.message);
      if (request === undefined) return { kind: "pass", wire };
      const started = performance.now();
      const passing = limiter.pass(signal);
      if (passing === undefined) return { kind: "pass", wire };
      const record = (): void => {
        const heldMs = performance.now() - started;
        emit({ type: "request.held", ...who, id: request.id, heldMs });
      };
      return passing.then(
        () => {
          record();
          return { kind: "pass", wire } as const;
        },
        (reason: unknown) => {
          if (reason === requestCancelled) record();
          throw reason;
        },
      );
    },
  };
}
