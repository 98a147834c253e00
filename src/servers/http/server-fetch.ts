import type { HttpServerSpec } from "../../core/formats/model.ts";
import { oauthFetch } from "./oauth.ts";

/**
 * `fetch` with what a server wants to see in every request: its headers, which win over the request's own, and its access
 * token. Rejects as `fetch` does, and with McpvalsError `server/unauthorized` when no token can be had.
 */
export function createServerFetch(spec: Pick<HttpServerSpec, "url" | "headers" | "auth">): typeof fetch {
  const { auth } = spec;
  const own = Object.entries(spec.headers);
  const withHeaders: typeof fetch = (input, init) => {
    const all = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    for (const [name, value] of own) all.set(name, value);
    return fetch(input, { ...init, headers: all });
  };
  return auth === undefined ? withHeaders : oauthFetch({ url: spec.url, auth }, withHeaders);
}
