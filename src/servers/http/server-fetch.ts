import type { FetchLike } from "@modelcontextprotocol/client";
import type { HttpServerSpec } from "../../core/formats/model.ts";
import { oauthFetch } from "./oauth.ts";

/**
 * `fetch` with what a server wants to see in every request: its headers, which win over the request's own, and its access
 * token. Redirects are followed as long as they stay at the server's address and keep the method; others are given as they
 * are, since headers and messages are for nobody else. Rejects as `fetch` does, and with McpvalsError
 * `server/unauthorized` when no token can be had.
 */
export function createServerFetch(spec: Pick<HttpServerSpec, "url" | "headers" | "auth">): FetchLike {
  const { auth } = spec;
  const own = Object.entries(spec.headers);
  const withHeaders: FetchLike = (url, init) => {
    const all = new Headers(init?.headers);
    for (const [name, value] of own) all.set(name, value);
    return fetchWithinOrigin(url, { ...init, headers: all });
  };
  return auth === undefined ? withHeaders : oauthFetch({ url: spec.url, auth }, withHeaders);
}

/** Whether a response sends the client to somewhere else. */
export function isRedirect({ status, headers }: Response): boolean {
  return status >= 300 && status < 400 && headers.has("location");
}

const mostRedirects = 5;

const fetchWithinOrigin: FetchLike = async (url, init = {}) => {
  let current = new URL(url);
  for (let followed = 0; ; followed += 1) {
    const response = await fetch(current, { ...init, redirect: "manual" });
    const target = targetWithin(current, response, init.method ?? "GET");
    if (target === undefined || init.redirect === "manual" || followed === mostRedirects) return response;
    await response.body?.cancel();
    current = target;
  }
};

function targetWithin(url: URL, response: Response, method: string): URL | undefined {
  const location = response.headers.get("location") ?? "";
  const keepsMethod = method.toUpperCase() === "GET" || response.status === 307 || response.status === 308;
  if (!isRedirect(response) || !keepsMethod || !URL.canParse(location, url.href)) return undefined;
  const target = new URL(location, url);
  return target.origin === url.origin && target.username === "" && target.password === ""
    ? target
    : undefined;
}
