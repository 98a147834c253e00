import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";

/** Headers of the one connection between two neighbours, which mean nothing on the next. */
const hopByHop = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/**
 * What is not for the server: `fetch` writes some itself, bodies come and go unpacked, and who the agent is, or where it
 * comes from, is nothing to a server that knows the tests by its own headers.
 */
const notSent = new Set([
  ...hopByHop,
  "accept-encoding",
  "authorization",
  "content-length",
  "cookie",
  "expect",
  "host",
  "origin",
  "referer",
]);

/**
 * What is not for the agent: a way around us (another address, a login of its own), and what was true of the packed body
 * only.
 */
const notGiven = new Set([
  ...hopByHop,
  "alt-svc",
  "content-encoding",
  "content-length",
  "content-location",
  "location",
  "set-cookie",
  "www-authenticate",
]);

/** An agent's headers as the server gets them. */
export function requestHeaders(request: IncomingMessage): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(request.headersDistinct))
    if (!notSent.has(name)) for (const value of values ?? []) headers.append(name, value);
  headers.set("accept-encoding", "identity");
  return headers;
}

/** A server's headers as the agent gets them. */
export function responseHeaders(response: Response): OutgoingHttpHeaders {
  return Object.fromEntries([...response.headers].filter(([name]) => !notGiven.has(name)));
}
