import type { JSONRPCMessage, MessageExtraInfo, RequestId } from "@modelcontextprotocol/client";
import { shortened } from "../../core/text/visible-text.ts";
import { RelayTransport, type RequestOptions } from "../connections/transports.ts";
import type { HttpNoAnswer } from "../connections/host.ts";
import { errorCodes, malformationOf } from "../messages/json-rpc.ts";

/** The `data`, known by identity, of errors in place of unusable answers. */
export const unusableAnswer: Readonly<Record<string, never>> = Object.freeze({});

/** Replaces the `data` of an error of the server, and holds the error as it came: the SDK rewrites some errors. */
export class OriginalError {
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };

  constructor(error: OriginalError["error"]) {
    this.error = error;
  }
}

/** Requests of the handshake: the SDK reads their errors itself. */
const handshakeMethods: ReadonlySet<string> = new Set(["initialize", "server/discover"]);

/** Requests whose answers are evidence; for others, a malformed answer does not matter. */
const evidenceMethods: ReadonlySet<string> = new Set(["tools/call", "resources/read", "prompts/get"]);

/**
 * Stands between the SDK's client and the recorded transport, and makes sure that every request is settled. The client drops
 * answers of the wrong shape, and accepts malformed ones. These answers, and HTTP responses without one, become JSON-RPC errors
 * for the caller; the record has what the server really sent. Errors of the server get an {@link OriginalError}, except those of
 * the handshake, which the SDK reads.
 */
export class AnswerGuard extends RelayTransport {
  /** Methods of the pending requests. */
  readonly #pending = new Map<RequestId, string>();

  override send(message: JSONRPCMessage, options?: RequestOptions): Promise<void> {
    if (!("method" in message && "id" in message)) return super.send(message, options);
    const { id, method } = message;
    this.#pending.set(id, method);
    return super.send(message, { ...options, onNoAnswer: (reason) => this.#noAnswer(id, reason) });
  }

  protected override receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    super.receive(this.#check(message), extra);
  }

  #check(message: JSONRPCMessage): JSONRPCMessage {
    if ("method" in message || message.id === undefined) return message;
    const method = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    const problem = problemOf(message, method);
    if (problem !== undefined) return failure(message.id, problem);
    if (!("error" in message) || method === undefined || handshakeMethods.has(method)) return message;
    return { ...message, error: { ...message.error, data: new OriginalError(message.error) } };
  }

  #noAnswer(id: RequestId, reason: HttpNoAnswer): void {
    if (this.#pending.delete(id)) super.receive(failure(id, reason.message, reason));
  }
}

/** Why the SDK's client would drop an answer silently, or why it is malformed; undefined for a valid one. */
function problemOf(answer: JSONRPCMessage, method: string | undefined): string | undefined {
  const malformation = evidenceMethods.has(method ?? "") ? malformationOf(answer) : undefined;
  if (malformation !== undefined) return `the answer is malformed: ${malformation}`;
  const kind = "error" in answer && answer.error !== null ? "error" : "result";
  const value: unknown = kind in answer ? Reflect.get(answer, kind) : undefined;
  if (!isObject(value)) return `the ${kind} is not an object: ${excerpt(value)}`;
  const others = Object.keys(answer).filter((key) => !["jsonrpc", "id", kind].includes(key));
  if (others.length > 0)
    return `the answer has other keys than jsonrpc, id and ${kind}: ${others.join(", ")}`;
  if (kind === "result" && value["_meta"] !== undefined && !isObject(value["_meta"]))
    return `_meta is not an object: ${excerpt(value["_meta"])}`;
  if (kind === "error" && !(Number.isInteger(value["code"]) && typeof value["message"] === "string"))
    return `the error has no code and message: ${excerpt(value)}`;
  return undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function excerpt(value: unknown): string {
  return shortened(JSON.stringify(value) ?? "nothing", 200);
}

function failure(id: RequestId, message: string, data: unknown = unusableAnswer): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: errorCodes.internal, message, data } };
}
