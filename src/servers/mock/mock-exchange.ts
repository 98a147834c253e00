import type { RequestId } from "@modelcontextprotocol/client";
import { requestCancelled } from "../filters/filter-signal.ts";
import { cancelledId, type Request, requestOf } from "../filters/messages.ts";
import { parseMessage } from "../json-rpc.ts";
import type { Channel, ChannelListener, WireMessage } from "../wire.ts";
import { codes } from "./mock-results.ts";
import type { MockServer } from "./mock-server.ts";

export interface MockExchangeOptions {
  readonly server: MockServer;
  readonly listener: ChannelListener;
  /** Gets every written answer that is no message. */
  readonly onInvalid: (text: string) => void;
  /** Whether such an answer goes to the client all the same; then its message is an error of ours that stands for it. */
  readonly passesInvalid: boolean;
  readonly onEnd: () => void;
}

/** One client's exchange with a mock. What it waits for is forgotten when it ends or takes its request back. */
export class MockExchange implements Channel {
  readonly #options: MockExchangeOptions;
  readonly #waiting = new Map<RequestId, AbortController>();
  #closed = false;

  constructor(options: MockExchangeOptions) {
    this.#options = options;
  }

  send({ message }: WireMessage): Promise<void> {
    if (this.#closed) return Promise.reject(new Error("a client that has left says something"));
    const request = requestOf(message);
    const cancelled = cancelledId(message);
    if (request !== undefined) void this.#answer(request);
    if (cancelled !== undefined) this.#waiting.get(cancelled)?.abort(requestCancelled);
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#end();
    return Promise.resolve();
  }

  /** The server ends the exchange. */
  finish(): void {
    if (this.#end()) this.#options.listener.onClosed();
  }

  #end(): boolean {
    if (this.#closed) return false;
    this.#closed = true;
    for (const controller of this.#waiting.values()) controller.abort(requestCancelled);
    this.#waiting.clear();
    this.#options.onEnd();
    return true;
  }

  async #answer(request: Request): Promise<void> {
    const controller = new AbortController();
    const { signal } = controller;
    this.#waiting.set(request.id, controller);
    const answer = await this.#options.server.answer(request, signal).catch((error: unknown) => {
      if (signal.aborted) return undefined;
      return brokenAnswer(request.id, error);
    });
    if (this.#waiting.get(request.id) === controller) this.#waiting.delete(request.id);
    if (answer !== undefined && !signal.aborted && !this.#closed) this.#deliver(request.id, answer);
  }

  #deliver(id: RequestId, text: string): void {
    const { listener, onInvalid, passesInvalid } = this.#options;
    const wire = parseMessage(Buffer.from(text, "utf8"));
    if (wire !== undefined) return listener.onMessage(wire);
    onInvalid(text);
    if (passesInvalid) listener.onMessage({ message: standIn(id), text });
  }
}

/** What the record has in the place of an answer that is no message; its text is there beside it. */
function standIn(id: RequestId): WireMessage["message"] {
  const message = "the mock's answer is no JSON-RPC message, on purpose";
  return { jsonrpc: "2.0", id, error: { code: codes.parse, message } };
}

function brokenAnswer(id: RequestId, error: unknown): string {
  const message = `the mock could not answer: ${error instanceof Error ? error.message : String(error)}`;
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: codes.internal, message } });
}
