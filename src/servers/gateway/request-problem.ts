import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { requestOf } from "../filters/messages.ts";
import type { BodyMessages } from "../http/body-messages.ts";
import { namedMember } from "../http/message-headers.ts";
import type { HttpExchange } from "./door.ts";

/** MCP's code for headers that do not say what the body says. */
const headerMismatch = -32020;
const parseError = -32700;

export interface RequestProblem {
  readonly code: number;
  readonly message: string;
}

/** Why a server may read the body of a request in another way than we do; undefined when it cannot. */
export function requestProblem(
  { request, body }: Pick<HttpExchange, "request" | "body">,
  messages: BodyMessages,
): RequestProblem | undefined {
  if (body.length === 0) return undefined;
  if (!isUtf8(body)) return { code: parseError, message: "Parse error: the body is not UTF-8" };
  const types = request.headersDistinct["content-type"] ?? [];
  if (types.length > 1 || types.some((type) => !/^application\/json\s*(?:;|$)/i.test(type.trim())))
    return { code: parseError, message: "Parse error: the content-type is not application/json" };
  return headerProblem(request, messages);
}

/** Since 2026-07-28 headers repeat what the body says, so that servers and what stands before them can go by either. */
function headerProblem(
  { headersDistinct }: IncomingMessage,
  messages: BodyMessages,
): RequestProblem | undefined {
  const said = messages.kind === "message" ? messages.wire.message : undefined;
  const method = said === undefined || !("method" in said) ? undefined : said.method;
  const member = said === undefined ? undefined : namedMember(said);
  const isWrong =
    differs(headersDistinct["mcp-method"], method) ||
    differs(headersDistinct["mcp-name"]?.map(decoded), member === undefined ? undefined : member);
  if (!isWrong) return undefined;
  const id = said === undefined ? undefined : requestOf(said)?.id;
  const which = id === undefined ? "" : ` (id ${JSON.stringify(id)})`;
  return {
    code: headerMismatch,
    message: `Header mismatch: mcp-method or mcp-name is not what the body says${which}`,
  };
}

function differs(values: readonly string[] | undefined, said: string | undefined): boolean {
  return values !== undefined && (values.length !== 1 || values[0] !== said);
}

function decoded(value: string): string {
  const [, base64] = /^=\?base64\?(.*)\?=$/i.exec(value) ?? [];
  return base64 === undefined ? value : Buffer.from(base64, "base64").toString("utf8");
}
