import type { FetchLike } from "@modelcontextprotocol/client";
import type { HttpServerSpec } from "../../model/server.ts";
import { untilAborted } from "../../process/deadline.ts";
import { loadSdk } from "../client/session.ts";
import { type ProtectedServer, refusedAgain, tokenSourceOf } from "./oauth-tokens.ts";

/**
 * `fetch` with the configured headers of a server, which override the request's own, and its access token. Follows redirects
 * within the server's origin that keep the method; others are returned, since headers and messages must not go elsewhere.
 * Rejects as `fetch` does, and with McpvalsError `server/unauthorized` when there is no token.
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

export function isRedirect({ status, headers }: Response): boolean {
  return status >= 300 && status < 400 && headers.has("location");
}

const maxRedirects = 5;

const fetchWithinOrigin: FetchLike = async (url, init = {}) => {
  let current = new URL(url);
  for (let followed = 0; ; followed += 1) {
    const response = await fetch(current, { ...init, redirect: "manual" });
    const target = targetWithin(current, response, init.method ?? "GET");
    if (target === undefined || init.redirect === "manual" || followed === maxRedirects) return response;
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

/**
 * Wraps `fetch` so that requests carry the server's access token. After a 401 a new token is requested, once for all waiting
 * requests, and the request is repeated. Rejects with McpvalsError `server/unauthorized` when there is no token or the new one is
 * refused too.
 */
function oauthFetch(server: ProtectedServer, inner: FetchLike): FetchLike {
  return async (url, init = {}) => {
    const source = tokenSourceOf(server);
    const repeatable = await repeatableInit(init);
    const send = (token: string | undefined): Promise<Response> => inner(url, withToken(repeatable, token));
    const used = await source.current();
    const response = await send(used);
    if (response.status !== 401) return response;
    const { extractWWWAuthenticateParams } = await loadSdk();
    // Where the server says that its tokens come from, and the scope that they need.
    const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response);
    await response.body?.cancel();
    const renewed = source.renew(used, { resourceMetadataUrl, scope });
    const token = await (init.signal ? untilAborted(renewed, init.signal) : renewed);
    const again = await send(token);
    if (again.status !== 401) return again;
    await again.body?.cancel();
    throw refusedAgain(server, source);
  };
}

/** A body that is a stream can be sent only once. */
async function repeatableInit(init: RequestInit): Promise<RequestInit> {
  if (!(init.body instanceof ReadableStream)) return init;
  return { ...init, body: await new Response(init.body).arrayBuffer() };
}

function withToken(init: RequestInit, token: string | undefined): RequestInit {
  if (token === undefined) return init;
  const headers = new Headers(init.headers);
  headers.set("authorization", `Bearer ${token}`);
  return { ...init, headers };
}
