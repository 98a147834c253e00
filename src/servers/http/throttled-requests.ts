import type { AdaptiveLimit, LimitChange } from "../../process/adaptive-limit.ts";
import { askedDelay, defaultRetryPolicy, retryDelay } from "../../process/retry.ts";
import type { RateLimitNotes, SendRequest, SendToServer } from "../connections/host.ts";

/**
 * Sends requests to a server that may refuse requests as too many (HTTP 429, RFC 6585): the request is sent again after the time of
 * `Retry-After`, or an exponential backoff, and no other request of the limit is sent before. After the last attempt, or when the wait would
 * be too long (see `defaultRetryPolicy`), the refusal is returned. Rejects as `send` does.
 */
export function throttledRequests(send: SendRequest, limit: AdaptiveLimit): SendToServer {
  return async (url, request, notes = {}) => {
    let leftMs = defaultRetryPolicy.waitBudgetMs;
    for (let attempt = 1; ; attempt += 1) {
      await enter(limit, request.signal, notes);
      const response = await send(url, request).catch((error: unknown) => {
        limit.ended();
        throw error;
      });
      if (response.status !== 429) {
        if (attempt === 1) noteChange(limit.answered(), "requests were answered", notes);
        else limit.ended();
        return response;
      }
      const asked = askedDelay(response.headers, Date.now);
      const delayMs = retryDelay(defaultRetryPolicy, attempt, { asked, random: Math.random });
      const isAgain = attempt <= defaultRetryPolicy.maxRetries && delayMs <= leftMs;
      noteChange(limit.refused(isAgain ? delayMs : undefined), "HTTP 429", notes);
      if (!isAgain) return response;
      leftMs -= delayMs;
      notes.onRefused?.(response);
      response.cancel();
    }
  };
}

async function enter(
  limit: AdaptiveLimit,
  signal: AbortSignal | undefined,
  { onHeld }: RateLimitNotes,
): Promise<void> {
  const wait = limit.enter(signal);
  if (wait === undefined) return;
  onHeld?.(wait.waiting);
  await wait.waiting;
}

function noteChange(change: LimitChange | undefined, reason: string, notes: RateLimitNotes): void {
  if (change !== undefined) notes.onLimitChanged?.({ ...change, reason });
}
