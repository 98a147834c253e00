import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { WireMessage } from "../wire.ts";

/** How often a comment is sent, in milliseconds, so that no client takes a quiet stream for a dead one. */
const pulseMs = 60_000;

/** A response that is a stream of events, each with one message. */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #pulse: NodeJS.Timeout;

  constructor(response: ServerResponse, headers: OutgoingHttpHeaders) {
    this.#response = response;
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache", ...headers });
    response.flushHeaders();
    this.#pulse = setInterval(() => response.write(":\n\n"), pulseMs);
    response.once("close", () => clearInterval(this.#pulse));
  }

  get isOpen(): boolean {
    return !this.#response.destroyed && !this.#response.writableEnded;
  }

  send({ text }: WireMessage): void {
    this.#response.write(`event: message\ndata: ${text}\n\n`);
  }

  end(): void {
    clearInterval(this.#pulse);
    this.#response.end();
  }
}
