import { McpvalsError, messageOf } from "../../base/error.ts";
import { shortened } from "../../base/visible-text.ts";
import { HttpNoAnswer, type HttpResponse, isAccepted } from "../connections/host.ts";

/** A server with an address. */
export interface Place {
  readonly server: string;
  readonly url: URL;
}

/** A URL without user name, password, query and fragment, which may hold secrets. */
export function displayUrl(url: string | URL): string {
  if (!URL.canParse(String(url))) return String(url);
  const { protocol, host, pathname, search } = new URL(url);
  return `${protocol}//${host}${pathname}${search === "" ? "" : "?…"}`;
}

/** The error for an HTTP error status. */
export function explainStatus(
  { server, url }: Place,
  method: string,
  { status, statusText, headers }: Pick<HttpResponse, "status" | "statusText" | "headers">,
): McpvalsError {
  const what = `${status} ${statusText}`.trim();
  const message = `server "${server}" answered ${method} ${displayUrl(url)} with HTTP ${what}`;
  const location = headers["location"] ?? "";
  const target = URL.canParse(location, url.href) ? displayUrl(new URL(location, url)) : undefined;
  const hint =
    target === undefined || status < 300 || status >= 400
      ? statusHint(status)
      : `Give the url that it redirects to: ${target}`;
  return new McpvalsError("server/http-status", message, { hint });
}

function statusHint(status: number): string {
  if (status === 401 || status === 403)
    return "Check the header Authorization: whether it is set (in a file: `headers` or `auth`; on the command line: --header or --bearer-env), correct and not expired.";
  if (status === 404 || status === 405)
    return "Check the path of the url and the transport: `shttp` is Streamable HTTP, `sse` the older HTTP+SSE.";
  if (status === 429)
    return "Give this server a rateLimit or maxConcurrent that it allows, or run fewer trials at once (-j 1).";
  if (status >= 300 && status < 400) return "Give the url that it redirects to.";
  return status >= 500
    ? "See the server's own log for why."
    : "Check the url and the headers of this server.";
}

const mayHaveCrashed = "The server may have crashed; see its own log.";

/** Why a request has no complete response, and what to do, by the system's error code. */
const reasons: Readonly<Record<string, readonly [reason: string, hint: string]>> = {
  ECONNREFUSED: ["connection refused", "Start the server, and check host and port of the url."],
  ENOTFOUND: ["no such host", "Check the host of the url."],
  EAI_AGAIN: ["the host's name could not be looked up", "Check the network and the host of the url."],
  ECONNRESET: ["the connection was closed by the server", mayHaveCrashed],
};

/** The error for a server that gave no complete response, unless it is known already. */
export function explainUnreachable({ server, url }: Place, cause: unknown): McpvalsError {
  if (cause instanceof McpvalsError) return cause;
  // The system's error may be the cause of others, or one of several, for each address of the host.
  let code: string | undefined;
  let text = messageOf(cause);
  for (let error: unknown = cause; error instanceof Error;) {
    if ("code" in error && typeof error.code === "string") code ??= error.code;
    text = error.message || text;
    error = error instanceof AggregateError ? error.errors[0] : error.cause;
  }
  // What is said of a URL may have its user name, its password and its query.
  text = text.replaceAll(url.href, displayUrl(url));
  const [reason, hint] = reasons[code ?? ""] ?? [
    `the connection failed${code === undefined ? "" : ` (${code})`}: ${text}`,
    "Check that the server runs and that the url is right.",
  ];
  const message = `server "${server}" at ${displayUrl(url)}: ${reason}`;
  return new McpvalsError("server/unreachable", message, { hint, cause });
}

/** Shown of the body of an HTTP error, in characters. */
const bodyLength = 500;
/** Shown of the body of a response that is not an answer, in characters. */
const firstWords = 80;
/** Kept of it as the detail of an error. */
const detailLength = 2000;

/** Describes the response to a POST that has no answer in it. */
export function noAnswerIn(place: Place, response: HttpResponse, body: string): HttpNoAnswer {
  const { ok, status, statusText, headers } = response;
  const text = body.trim();
  const excerpt = shortened(text, bodyLength);
  const asked = status === 429 ? headers["retry-after"] : undefined;
  const line =
    `HTTP ${status} ${statusText}`.trim() +
    (asked === undefined ? "" : ` (Retry-After: ${shortened(asked, firstWords)})`);
  if (!ok) {
    const { code, message, details } = explainStatus(place, "POST", response);
    const detail = text === "" ? {} : { detail: shortened(text, detailLength) };
    const statusError = new McpvalsError(code, message, { ...details, ...detail });
    return new HttpNoAnswer(text === "" ? line : `${line}: ${excerpt}`, { status, body, statusError });
  }
  const type = headers["content-type"] ?? "";
  const message = isAccepted(response)
    ? line
    : /^text\/event-stream/i.test(type)
      ? "the server ended the response without an answer"
      : /^application\/json/i.test(type)
        ? `the response is not a JSON-RPC answer: ${excerpt}`
        : `unexpected content type: ${type === "" ? "none" : type}${text === "" ? "" : `: ${shortened(text, firstWords)}`}`;
  const isForeign = !isAccepted(response) && !/^(?:text\/event-stream|application\/json)/i.test(type);
  return new HttpNoAnswer(message, { status, body, statusError: undefined, isForeign });
}
