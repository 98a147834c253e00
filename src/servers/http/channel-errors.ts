import { McpvalsError } from "../../core/errors/error.ts";
import { requestOf } from "../filters/messages.ts";
import { explainUnreachable } from "./http-errors.ts";
import { type WireMessage, wireMessage } from "../wire.ts";
import { shortened } from "../../core/text/shortened.ts";

/** The error for a message of a server's over the limit. */
export function messageTooLarge(server: string, limit: number): McpvalsError {
  return new McpvalsError(
    "server/message-too-large",
    `server "${server}" sent a message of more than ${limit} bytes`,
    { hint: "Answer with less, or raise maxMessageBytes for that server." },
  );
}

/** Why a server is lost when a request to it fails: what is known already, or that it cannot be reached. */
export function asLoss(
  error: unknown,
  { server, url }: { readonly server: string; readonly url: URL },
): McpvalsError {
  return error instanceof McpvalsError ? error : explainUnreachable(server, url.href, error);
}

/** The answer to a request that the server gave none: whoever speaks messages has no other way to hear why. */
export function failedAnswer(request: WireMessage, message: string): WireMessage | undefined {
  const id = requestOf(request.message)?.id;
  return id === undefined ? undefined : wireMessage({ jsonrpc: "2.0", id, error: { code: -32000, message } });
}

/** What a response with an error status says. */
export function statusMessage({ status, statusText }: Response, body: string): string {
  const text = statusText === "" ? "" : ` ${statusText}`;
  return `HTTP ${status}${text}${body === "" ? "" : `: ${shortened(body, 1000)}`}`;
}
