import type { Secret } from "../../core/trace/redact.ts";
import { type ProtectedServer, TokenSource } from "./oauth-tokens.ts";

/** One for each server and way to get its tokens, so that all trials share a token and get a new one once. */
const sources = new Map<string, TokenSource>();
const listeners = new Set<(secret: Secret) => void>();

/** Where the tokens of a server come from. */
export function tokenSourceOf(server: ProtectedServer): TokenSource {
  const key = JSON.stringify([server.url, server.auth]);
  const known = sources.get(key);
  if (known !== undefined) return known;
  const source = new TokenSource(server, (secret) => {
    for (const listener of listeners) listener(secret);
  });
  sources.set(key, source);
  return source;
}

/**
 * Has somebody hear of every token before it is first used, those that are known already included, so that none is ever
 * written. Tokens are forgotten before the first one listens and when nobody does any more.
 */
export function hearTokens(listener: (secret: Secret) => void): Disposable {
  if (listeners.size === 0) sources.clear();
  const own = (secret: Secret): void => listener(secret);
  listeners.add(own);
  for (const source of sources.values()) for (const secret of source.secrets) own(secret);
  return {
    [Symbol.dispose]() {
      listeners.delete(own);
      if (listeners.size === 0) sources.clear();
    },
  };
}
