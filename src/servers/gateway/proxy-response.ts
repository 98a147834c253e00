import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { McpvalsError } from "../../core/errors/error.ts";
import { answeredId } from "../filters/messages.ts";
import type { HttpAddress } from "../hosts/host.ts";
import { type BodyMessages, readBytes, wiresOf } from "../http/body-messages.ts";
import { explainUnreachable } from "../http/http-errors.ts";
import {
  chunksOf,
  eventsOf,
  eventWithData,
  type StreamEvent,
  type StreamReaderOptions,
  wholeOf,
} from "../http/stream-reader.ts";
import type { WireMessage } from "../wire.ts";
import type { AgentLink } from "./agent-link.ts";
import { answerError, writeTo } from "./answers.ts";
import type { HttpExchange, Room } from "./door.ts";
import { written } from "./proxy-request.ts";

export interface RelayOptions {
  readonly link: AgentLink;
  readonly room: Room;
  readonly address: HttpAddress;
  /** Requests that the response has to answer. */
  readonly ids: readonly (string | number)[];
  /** What filters answered in the server's place, to be given along with the rest. */
  readonly answers: readonly WireMessage[];
}

/** Gives a server's response to the agent, byte for byte, but for what filters change. Never rejects for what a server does. */
export async function relayResponse(
  exchange: HttpExchange,
  upstream: Response,
  options: RelayOptions,
): Promise<void> {
  const relay = new Relay(exchange, upstream, options);
  try {
    await relay.run();
  } catch (error) {
    relay.fail(error);
  }
}

class Relay {
  readonly #exchange: HttpExchange;
  readonly #upstream: Response;
  readonly #options: RelayOptions;
  readonly #unanswered: Set<string | number>;
  /** The server has said which event it was, so that a broken stream can be taken up again. */
  #isResumable = false;
  #isHeld = false;

  constructor(exchange: HttpExchange, upstream: Response, options: RelayOptions) {
    this.#exchange = exchange;
    this.#upstream = upstream;
    this.#options = options;
    this.#unanswered = new Set(options.ids);
  }

  run(): Promise<void> {
    const type = (this.#upstream.headers.get("content-type") ?? "").toLowerCase();
    if (type.startsWith("text/event-stream")) return this.#events();
    // An agent may read an answer whatever its type says.
    return type.startsWith("application/json") || this.#unanswered.size > 0 ? this.#json() : this.#bytes();
  }

  /** The server's response broke off, or cannot be passed on. */
  fail(error: unknown): void {
    const { signal, response, request } = this.#exchange;
    const { room, address } = this.#options;
    if (signal.aborted) return;
    if (error instanceof McpvalsError) room.onLost(error);
    else if (request.method === "POST" && this.#unanswered.size > 0 && !this.#isResumable)
      room.onLost(explainUnreachable(room.server, address.url.href, error));
    const message = error instanceof Error ? error.message : String(error);
    answerError(response, 502, { code: -32000, message });
  }

  /** The body is read in whole, since a filter has to see the message before the agent does. */
  async #json(): Promise<void> {
    const { link, answers } = this.#options;
    const bytes = await wholeOf(chunksOf(this.#upstream), this.#reading());
    const messages = readBytes(bytes);
    if (messages.kind === "other" && answers.length > 0) return this.#answersAlone();
    const before = wiresOf(messages);
    const after: WireMessage[] = [];
    for (const wire of before) await this.#pass(wire, (passed) => after.push(passed));
    if (this.#exchange.response.destroyed || link.ended.aborted) return;
    const isSame = after.length === before.length && after.every((wire, index) => wire === before[index]);
    if (!isSame && after.length === 0 && answers.length === 0) return;
    const given = [...after, ...answers];
    for (const wire of given) link.delivers(wire);
    this.#end(isSame && answers.length === 0 ? bytes : asBody(given, messages));
  }

  #end(body: Uint8Array): void {
    const headers = { ...responseHeaders(this.#upstream), "content-length": body.length };
    this.#exchange.response.writeHead(this.#upstream.status, headers).end(body);
  }

  async #events(): Promise<void> {
    const { response } = this.#exchange;
    response.writeHead(this.#upstream.status, responseHeaders(this.#upstream));
    // With the first event, where that is here already.
    setImmediate(() => response.flushHeaders());
    for (const answer of this.#options.answers) await this.#writeAnswer(answer);
    for await (const event of eventsOf(chunksOf(this.#upstream), this.#reading())) await this.#event(event);
    if (!this.#isHeld) response.end();
  }

  async #writeAnswer(answer: WireMessage): Promise<void> {
    this.#options.link.delivers(answer);
    await writeTo(this.#exchange.response, `event: message\ndata: ${answer.text}\n\n`);
  }

  async #event(event: StreamEvent): Promise<void> {
    const { response } = this.#exchange;
    if (event.id !== undefined) this.#isResumable = true;
    const wires = isMessage(event) ? wiresOf(readBytes(event.bytes, event.data)) : [];
    if (wires.length === 0) return writeTo(response, event.bytes);
    const after: WireMessage[] = [];
    for (const wire of wires) await this.#pass(wire, (passed) => after.push(passed));
    if (response.destroyed || after.length === 0) return;
    for (const wire of after) this.#options.link.delivers(wire);
    const isSame = after.length === wires.length && after.every((wire, index) => wire === wires[index]);
    const changed = (): Buffer => eventWithData(event, written(after, wires.length > 1));
    await writeTo(response, isSame ? event.bytes : changed());
  }

  /** Passes one message through the filters. */
  async #pass(wire: WireMessage, give: (wire: WireMessage) => void): Promise<void> {
    const { link } = this.#options;
    const id = answeredId(wire.message);
    if (id !== undefined) this.#unanswered.delete(id);
    await link.fromServer(wire, (passage) => {
      if (passage.kind === "pass" || passage.kind === "answer") give(passage.wire);
      else if (passage.kind === "disconnect") link.cut();
      // Without its answer the response must not end, or the agent would know.
      else if (id !== undefined) this.#isHeld = true;
    });
  }

  async #bytes(): Promise<void> {
    const { response } = this.#exchange;
    if (this.#options.answers.length > 0) return this.#answersAlone();
    response.writeHead(this.#upstream.status, responseHeaders(this.#upstream));
    for await (const chunk of chunksOf(this.#upstream)) await writeTo(response, chunk);
    response.end();
  }

  /** The server has said nothing that could stand beside what filters answered. */
  #answersAlone(): void {
    const { answers, link } = this.#options;
    for (const answer of answers) link.delivers(answer);
    const { response } = this.#exchange;
    response.writeHead(200, { "content-type": "application/json" }).end(written(answers, true));
  }

  #reading(): StreamReaderOptions {
    const { room, address } = this.#options;
    return { server: room.server, limit: address.maxMessageBytes };
  }
}

function isMessage(event: StreamEvent): event is StreamEvent & { readonly data: string } {
  return event.data !== undefined && (event.event === undefined || event.event === "message");
}

function asBody(wires: readonly WireMessage[], before: BodyMessages): Buffer {
  return Buffer.from(written(wires, before.kind === "batch" || wires.length > 1));
}

/** Headers of the one connection between two neighbours, which mean nothing on the next. */
const hopByHop = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/**
 * What is not for the server: `fetch` writes some itself, bodies come and go unpacked, and who the agent is, or where it
 * comes from, is nothing to a server that knows the tests by its own headers.
 */
const notSent = new Set([
  ...hopByHop,
  "accept-encoding",
  "authorization",
  "content-length",
  "cookie",
  "expect",
  "host",
  "origin",
  "referer",
]);

/**
 * What is not for the agent: a way around us (another address, a login of its own), and what was true of the packed body
 * only.
 */
const notGiven = new Set([
  ...hopByHop,
  "alt-svc",
  "content-encoding",
  "content-length",
  "content-location",
  "location",
  "set-cookie",
  "www-authenticate",
]);

/** An agent's headers as the server gets them. */
export function requestHeaders(request: IncomingMessage): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(request.headersDistinct))
    if (!notSent.has(name)) for (const value of values ?? []) headers.append(name, value);
  headers.set("accept-encoding", "identity");
  return headers;
}

/** A server's headers as the agent gets them. */
export function responseHeaders(response: Response): OutgoingHttpHeaders {
  return Object.fromEntries([...response.headers].filter(([name]) => !notGiven.has(name)));
}
