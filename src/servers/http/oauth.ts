import type { FetchLike } from "@modelcontextprotocol/client";
import { untilAborted } from "../../process/deadline.ts";
import { loadSdk } from "../client/sdk.ts";
import { refusedAgain } from "./oauth-errors.ts";
import type { ProtectedServer, TokenHint } from "./oauth-tokens.ts";
import { tokenSourceOf } from "./token-sources.ts";

/**
 * Wraps `fetch` so that requests carry the server's access token. When the server refuses one with 401, a new token is got
 * once, for all who wait for it, and the request is repeated. Rejects with McpvalsError `server/unauthorized` when no token
 * can be had or the new one is refused, too.
 */
export function oauthFetch(server: ProtectedServer, inner: FetchLike): FetchLike {
  return async (url, init = {}) => {
    const source = tokenSourceOf(server);
    const repeatable = await repeatableInit(init);
    const send = (token: string | undefined): Promise<Response> => inner(url, withToken(repeatable, token));
    const used = await source.current();
    const response = await send(used);
    if (response.status !== 401) return response;
    const hint = await hintOf(response);
    await response.body?.cancel();
    const renewed = source.renew(used, hint);
    const token = await (init.signal ? untilAborted(renewed, init.signal) : renewed);
    const again = await send(token);
    if (again.status !== 401) return again;
    await again.body?.cancel();
    throw refusedAgain(server, source.clean);
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

/** Where the server says that its tokens come from, and what they have to allow. */
async function hintOf(response: Response): Promise<TokenHint> {
  const { extractWWWAuthenticateParams } = await loadSdk();
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response);
  return {
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }),
    ...(scope === undefined ? {} : { scope }),
  };
}
