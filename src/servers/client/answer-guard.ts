import type { JSONRPCMessage, MessageExtraInfo, RequestId } from "@modelcontextprotocol/client";
import { shortened } from "../../core/text/shortened.ts";
import { type RequestOptions, RelayTransport } from "../connections/transports.ts";
import type { HttpNoAnswer } from "../connections/host.ts";
import { errorCodes, malformationOf } from "../messages/json-rpc.ts";

/** The `data`, known by identity, of the errors that stand for an answer that could not be used or never came. */
export const unusableAnswer: Readonly<Record<string, never>> = Object.freeze({});

/**
 * Stands in the place of an error's `data` and holds the error as it came. The SDK makes errors of its own of some codes
 * and data, with another code and less data.
 */
export class OriginalError {
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };

  constructor(error: OriginalError["error"]) {
    this.error = error;
  }
}

/** What the client asks while it connects; it reads the errors itself. */
const handshakeMethods: ReadonlySet<string> = new Set(["initialize", "server/discover"]);

/** Requests whose answers are looked at; malformed answers to others are no more than odd. */
const evidenceMethods: ReadonlySet<string> = new Set(["tools/call", "resources/read", "prompts/get"]);

/**
 * Stands between the SDK's client and the recorded transport, and sees to it that every request is settled. The client
 * drops answers of the wrong shape, takes malformed ones for what it makes of them, and does not notice when an HTTP stream ends without the answer, so that the caller
 * would wait for the whole timeout. All of these become JSON-RPC errors, for the caller only; the record has what really came. Errors
 * of the server come to the caller with an {@link OriginalError}, but for those of the handshake, which the client reads.
 */
export class AnswerGuard extends RelayTransport {
  /** Methods of the requests that are not answered yet. */
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

/** What is wrong with an answer in the eyes of the SDK's client, which drops it without a word then. */
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
