import type { IncomingMessage } from "node:http";
import { type BodyMessages, readBody } from "../http/body-messages.ts";
import type { HttpExchange } from "./door.ts";

const nothing: BodyMessages = { kind: "other" };

/**
 * Reads what an agent says to a server with an address; undefined when that cannot be told, since the server could read it
 * in another way. The body of a method that passes on none says nothing.
 */
export function readAgentBody({ request, body }: HttpExchange): BodyMessages | undefined {
  if (body.length === 0 || !hasBody(request.method)) return nothing;
  if (isEncoded(request)) return undefined;
  const messages = readBody(body.toString("utf8"));
  return messages.kind === "other" ? undefined : messages;
}

/** Whether `fetch` sends a body with it. */
export function hasBody(method: string | undefined): boolean {
  return method !== undefined && method !== "GET" && method !== "HEAD";
}

/** Whether the body is packed, or in other characters than UTF-8. */
function isEncoded({ headers }: IncomingMessage): boolean {
  const packed = headers["content-encoding"] ?? "identity";
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(headers["content-type"] ?? "")?.[1] ?? "utf-8";
  return packed.toLowerCase() !== "identity" || !/^utf-?8$/i.test(charset);
}
