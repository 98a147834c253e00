import type { HttpServerSpec } from "../../model/server.ts";
import { untilAborted } from "../../process/deadline.ts";
import { loadSdk } from "../client/session.ts";
import type { HttpResponse, SendRequest } from "../connections/host.ts";
import { sendRequest } from "./http-request.ts";
import { type ProtectedServer, refusedAgain, tokenSourceOf } from "./oauth-tokens.ts";

/**
 * Sends requests with the configured headers of a server, which override the request's own, and its access token. Follows redirects
 * within the server's origin that keep the method; others are returned, since headers and messages must not go elsewhere.
 * Rejects as `sendRequest` does, and with McpvalsError `server/unauthorized` when there is no token.
 */
export function createServerRequests(spec: Pick<HttpServerSpec, "url" | "headers" | "auth">): SendRequest {
  const { auth } = spec;
  const withHeaders: SendRequest = (url, request) =>
    sendWithinOrigin(url, { ...request, headers: { ...request.headers, ...spec.headers } });
  return auth === undefined ? withHeaders : authorized({ url: spec.url, auth }, withHeaders);
}

export function isRedirect({ status, headers }: HttpResponse): boolean {
  return status >= 300 && status < 400 && headers["location"] !== undefined;
}

const maxRedirects = 5;

const sendWithinOrigin: SendRequest = async (url, request) => {
  let current = url;
  for (let followed = 0; ; followed += 1) {
    const response = await sendRequest(current, request);
    const target = targetWithin(current, response, request.method);
    if (target === undefined || followed === maxRedirects) return response;
    response.cancel();
    current = target;
  }
};

function targetWithin(url: URL, response: HttpResponse, method: string): URL | undefined {
  if (!isRedirect(response)) return undefined;
  const location = response.headers["location"] ?? "";
  const keepsMethod = method === "GET" || response.status === 307 || response.status === 308;
  if (!keepsMethod || !URL.canParse(location, url.href)) return undefined;
  const target = new URL(location, url);
  return target.origin === url.origin && target.username === "" && target.password === ""
    ? target
    : undefined;
}

/**
 * Requests carry the server's access token. After a 401 a new token is requested, once for all waiting requests, and the request is
 * repeated. Rejects with McpvalsError `server/unauthorized` when there is no token or the new one is refused too.
 */
function authorized(server: ProtectedServer, inner: SendRequest): SendRequest {
  return async (url, request) => {
    const source = tokenSourceOf(server);
    const send = (token: string | undefined): Promise<HttpResponse> => {
      const own = token === undefined ? {} : { authorization: `Bearer ${token}` };
      return inner(url, { ...request, headers: { ...request.headers, ...own } });
    };
    const used = await source.current();
    const response = await send(used);
    if (response.status !== 401) return response;
    const { extractWWWAuthenticateParams } = await loadSdk();
    // Where the server says that its tokens come from, and the scope that they need.
    const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(
      new Response(null, { headers: { "www-authenticate": response.headers["www-authenticate"] ?? "" } }),
    );
    response.cancel();
    const renewed = source.renew(used, { resourceMetadataUrl, scope });
    const token = await (request.signal ? untilAborted(renewed, request.signal) : renewed);
    const again = await send(token);
    if (again.status !== 401) return again;
    again.cancel();
    throw refusedAgain(server, source);
  };
}
