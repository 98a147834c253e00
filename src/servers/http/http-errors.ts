import { McpvalsError } from "../../core/errors/error.ts";
import { shortened } from "../../core/text/visible-text.ts";
import { errorAnswer, errorCodes, requestOf, type WireMessage } from "../messages/json-rpc.ts";
import { type ChannelListener, HttpNoAnswer, isAccepted } from "../connections/host.ts";

/** A URL without user name, password, query and fragment, which may hold secrets. */
export function shownUrl(url: string | URL): string {
  if (!URL.canParse(String(url))) return String(url);
  const { protocol, host, pathname, search } = new URL(url);
  return `${protocol}//${host}${pathname}${search === "" ? "" : "?…"}`;
}

/** The error for an HTTP error status. */
export function explainStatus(
  server: string,
  { status, statusText }: { readonly status: number; readonly statusText: string },
  request: { readonly url: string | URL; readonly method: string },
): McpvalsError {
  const text = statusText === "" ? "" : ` ${statusText}`;
  return new McpvalsError(
    "server/http-status",
    `server "${server}" answered ${request.method} ${shownUrl(request.url)} with HTTP ${status}${text}`,
    { hint: statusHint(status) },
  );
}

function statusHint(status: number): string {
  if (status === 401 || status === 403)
    return "Check the headers of this server, above all Authorization: whether they are set, correct and not expired.";
  if (status === 404 || status === 405)
    return "Check the path of the url and the transport: `shttp` is Streamable HTTP, `sse` the older HTTP+SSE.";
  if (status >= 300 && status < 400) return "Give the url that it redirects to.";
  return status >= 500
    ? "See the server's own log for why."
    : "Check the url and the headers of this server.";
}

/** The error for a request without a complete response. */
export function explainUnreachable(server: string, url: string, cause: unknown): McpvalsError {
  const code = systemCode(cause);
  const { reason, hint } = reasons[code ?? ""] ?? {
    reason: `the connection failed${code === undefined ? "" : ` (${code})`}: ${rootMessage(cause)}`,
    hint: "Check that the server runs and that the url is right.",
  };
  return new McpvalsError("server/unreachable", `server "${server}" at ${shownUrl(url)}: ${reason}`, {
    hint,
    cause,
  });
}

const reasons: Readonly<Record<string, { readonly reason: string; readonly hint: string }>> = {
  ECONNREFUSED: {
    reason: "connection refused",
    hint: "Start the server, and check host and port of the url.",
  },
  ENOTFOUND: {
    reason: "no such host",
    hint: "Check the host of the url.",
  },
  EAI_AGAIN: {
    reason: "the host's name could not be looked up",
    hint: "Check the network and the host of the url.",
  },
  ECONNRESET: {
    reason: "the connection was reset",
    hint: "The server may have crashed; see its own log.",
  },
  UND_ERR_SOCKET: {
    reason: "the connection was closed by the server",
    hint: "The server may have crashed; see its own log.",
  },
};

/** The system's error code; `fetch` wraps it in one or more causes. */
function systemCode(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = causeOf(cause)) {
    if ("code" in cause && typeof cause.code === "string") return cause.code;
  }
  return undefined;
}

/** The message of the innermost cause: that of `fetch` itself is always "fetch failed". */
function rootMessage(error: unknown): string {
  let message = messageOf(error);
  for (let cause = error; cause instanceof Error; cause = causeOf(cause)) message = cause.message || message;
  return message;
}

function causeOf(error: Error): unknown {
  return error instanceof AggregateError ? error.errors[0] : error.cause;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The error for a server that is lost because a request failed. */
export function asLoss(
  error: unknown,
  { server, url }: { readonly server: string; readonly url: URL },
): McpvalsError {
  return error instanceof McpvalsError ? error : explainUnreachable(server, url.href, error);
}

/** Shown of the body of an HTTP error, in characters. */
const bodyLength = 500;
/** Kept of it as the detail of an error. */
const detailLength = 2000;

/** Describes the response to a POST that has no answer in it. */
export function noAnswerIn(
  response: Response,
  body: string,
  { server, url }: { readonly server: string; readonly url: URL },
): HttpNoAnswer {
  const { ok, status, statusText, headers } = response;
  const text = body.trim();
  const excerpt = shortened(text, bodyLength);
  if (!ok) {
    const { code, message, details } = explainStatus(server, response, { url, method: "POST" });
    const detail = text === "" ? {} : { detail: shortened(text, detailLength) };
    return new HttpNoAnswer(`HTTP ${status} ${statusText}`.trim() + (text === "" ? "" : `: ${excerpt}`), {
      status,
      body,
      statusError: new McpvalsError(code, message, { ...details, ...detail }),
    });
  }
  const type = headers.get("content-type") ?? "";
  const message = isAccepted(response)
    ? `HTTP ${status} ${statusText}`.trim()
    : /^text\/event-stream/i.test(type)
      ? "the server ended the response without an answer"
      : /^application\/json/i.test(type)
        ? `the response is not a JSON-RPC answer: ${excerpt}`
        : `unexpected content type: ${type === "" ? "none" : type}`;
  return new HttpNoAnswer(message, { status, body, statusError: undefined });
}

/** Tells a client that a request has no answer: in its own way, or with a JSON-RPC error in place of the answer. */
export function reportNoAnswer(listener: ChannelListener, request: WireMessage, failure: HttpNoAnswer): void {
  if (listener.onNoAnswer !== undefined) return listener.onNoAnswer(request, failure);
  const id = requestOf(request.message)?.id;
  if (id === undefined) return;
  listener.onMessage(errorAnswer(id, errorCodes.server, failure.message));
}
