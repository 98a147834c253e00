import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { WireMessage } from "../wire.ts";
import { answerError } from "./answers.ts";
import type { HttpExchange } from "./door.ts";

/** How long a request may take before the response begins, in milliseconds: clients give up when they hear nothing. */
const silenceMs = 15_000;

export interface PostOptions {
  /** Requests that it waits for. */
  readonly ids: readonly (string | number)[];
  /** Under which it is told of progress. */
  readonly tokens: ReadonlySet<unknown>;
  /** The answers are to be one array. */
  readonly isBatch: boolean;
  readonly headers: OutgoingHttpHeaders;
}

/**
 * The response to a POST with requests. It is JSON when the answers are all that there is to say, and a stream of events when
 * something else comes first, or the client names streams before JSON.
 */
export class Post {
  readonly #exchange: HttpExchange;
  readonly #options: PostOptions;
  readonly #unanswered: Set<string | number>;
  readonly #answers: WireMessage[] = [];
  readonly #takesEvents: boolean;
  readonly #prefersEvents: boolean;
  readonly #silence: NodeJS.Timeout | undefined;
  #stream: EventStream | undefined;

  constructor(exchange: HttpExchange, options: PostOptions) {
    this.#exchange = exchange;
    this.#options = options;
    this.#unanswered = new Set(options.ids);
    const { accept = "" } = exchange.request.headers;
    this.#takesEvents = /text\/event-stream|\*\/\*/.test(accept);
    this.#prefersEvents = /^\s*text\/event-stream/.test(accept);
    if (this.#takesEvents) this.#silence = setTimeout(() => this.#begin(), silenceMs);
    exchange.response.once("close", () => clearTimeout(this.#silence));
  }

  /** Whether what is no answer can go out here. */
  get takesEvents(): boolean {
    const { response } = this.#exchange;
    return this.#takesEvents && !response.destroyed && !response.writableEnded;
  }

  get tokens(): ReadonlySet<unknown> {
    return this.#options.tokens;
  }

  /** Requests that have no answer yet. */
  get unanswered(): ReadonlySet<string | number> {
    return this.#unanswered;
  }

  /** Sends what is no answer. */
  send(wire: WireMessage): void {
    this.#begin().send(wire);
  }

  /** Sends an answer; the last one ends the response. */
  answer(id: string | number, wire: WireMessage): void {
    this.#unanswered.delete(id);
    if (this.#stream === undefined) this.#answers.push(wire);
    else this.#stream.send(wire);
    if (this.#unanswered.size === 0) this.#end();
  }

  /** There will be no answer. */
  fail(status: number, message: string): void {
    clearTimeout(this.#silence);
    answerError(this.#exchange.response, status, { code: -32000, message });
  }

  #begin(): EventStream {
    clearTimeout(this.#silence);
    if (this.#stream === undefined) {
      this.#stream = new EventStream(this.#exchange.response, this.#options.headers);
      for (const answer of this.#answers.splice(0)) this.#stream.send(answer);
    }
    return this.#stream;
  }

  #end(): void {
    clearTimeout(this.#silence);
    if (this.#prefersEvents) this.#begin();
    if (this.#stream !== undefined) {
      this.#stream.end();
      return;
    }
    const texts = this.#answers.map(({ text }) => text).join(",");
    const body = Buffer.from(this.#options.isBatch ? `[${texts}]` : texts);
    const headers = { "content-type": "application/json", "content-length": body.length };
    this.#exchange.response.writeHead(200, { ...headers, ...this.#options.headers }).end(body);
  }
}

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
