import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { McpvalsError } from "../../core/errors/error.ts";
import type { HttpAddress } from "../connections/host.ts";
import {
  chunksOf,
  eventsOf,
  eventWithData,
  type StreamEvent,
  type StreamReaderOptions,
  wholeOf,
} from "../http/event-stream.ts";
import { explainStatus, explainUnreachable } from "../http/http-errors.ts";
import { isRedirect } from "../http/server-fetch.ts";
import {
  answeredId,
  type BodyMessages,
  readBody,
  readBytes,
  requestOf,
  type WireMessage,
  wiresOf,
} from "../messages/json-rpc.ts";
import { type AgentLink, Lanes } from "./agent-link.ts";
import { answerError, type Door, type HttpExchange, type Room, writeTo } from "./endpoint.ts";
import { requestProblem } from "./request-checks.ts";

/** Methods that `fetch` can pass on. */
const passed = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** One client of a server that is reached through the proxy. */
export class ProxyClient {
  readonly link: AgentLink;
  readonly #waiting = new Map<string | number, number>();

  constructor(link: AgentLink) {
    this.link = link;
  }

  isWaitingFor(id: string | number): boolean {
    return this.#waiting.has(id);
  }

  /** Notes requests that are on their way, until the result is called. */
  waitsFor(ids: readonly (string | number)[]): () => void {
    for (const id of ids) this.#waiting.set(id, (this.#waiting.get(id) ?? 0) + 1);
    return () => {
      for (const id of ids) {
        const left = (this.#waiting.get(id) ?? 1) - 1;
        if (left === 0) this.#waiting.delete(id);
        else this.#waiting.set(id, left);
      }
    };
  }
}

/** Brings an agent's HTTP to a server with an address: a reverse proxy that only looks, unless a filter changes something. */
export class HttpProxy implements Door {
  readonly #room: Room;
  readonly #address: HttpAddress;
  readonly #sessions = new Map<string, ProxyClient>();
  readonly #lanes: Lanes<ProxyClient>;

  constructor(room: Room, address: HttpAddress) {
    this.#room = room;
    this.#address = address;
    this.#lanes = new Lanes(() => this.#newClient());
  }

  async handle(exchange: HttpExchange): Promise<void> {
    const { request, response } = exchange;
    if (!passed.includes(request.method ?? "")) {
      answerError(response, 405, { code: -32000, message: "Method not allowed." });
      return;
    }
    const messages = readAgentBody(exchange);
    if (messages === undefined) {
      answerError(response, 400, { code: -32700, message: "Parse error: not a JSON-RPC message in UTF-8" });
      return;
    }
    const wires = wiresOf(messages);
    const ids = wires.flatMap(({ message }) => requestOf(message)?.id ?? []);
    const begins = wires.some(({ message }) => requestOf(message)?.method === "initialize");
    const session = headerOf(request.headers["mcp-session-id"]);
    const client = this.#clientOf({ session, begins, ids });
    const done = client.waitsFor(ids);
    response.once("close", done);
    const release = client.link.holds(() => response.destroy());
    response.once("close", release);
    const outgoing = await passAgentBody(exchange, messages, client.link);
    if (outgoing === undefined) return;
    const upstream = await this.#fetch(exchange, { body: outgoing.body, link: client.link, ids });
    if (upstream === undefined) return;
    client.link.responds(request.method ?? "GET", upstream.status, ids);
    this.#noteSession({ client, session, begins, upstream, method: request.method });
    await relayResponse(exchange, upstream, {
      link: client.link,
      room: this.#room,
      address: this.#address,
      ids: ids.filter((id) => !outgoing.dropped.includes(id)),
      answers: outgoing.answers,
    });
    if (request.method === "DELETE" && upstream.ok && session !== undefined) this.#endSession(session);
  }

  #clientOf(from: {
    readonly session: string | undefined;
    readonly begins: boolean;
    readonly ids: readonly (string | number)[];
  }): ProxyClient {
    const known = from.session === undefined ? undefined : this.#sessions.get(from.session);
    if (known !== undefined) return known;
    return from.begins ? this.#newClient() : this.#lanes.pick(from.ids);
  }

  #newClient(): ProxyClient {
    return new ProxyClient(this.#room.connect("http"));
  }

  #noteSession(from: {
    readonly client: ProxyClient;
    readonly session: string | undefined;
    readonly begins: boolean;
    readonly upstream: Response;
    readonly method: string | undefined;
  }): void {
    if (!from.begins || from.session !== undefined) return;
    const session = from.upstream.headers.get("mcp-session-id");
    if (session === null) this.#lanes.add(from.client);
    else this.#sessions.set(session, from.client);
  }

  #endSession(session: string): void {
    this.#sessions.get(session)?.link.end();
    this.#sessions.delete(session);
  }

  /** undefined: there is no response, and the agent has been told. */
  async #fetch(
    { request, response, signal }: HttpExchange,
    sending: {
      readonly body: Uint8Array;
      readonly link: AgentLink;
      readonly ids: readonly (string | number)[];
    },
  ): Promise<Response | undefined> {
    const method = request.method ?? "GET";
    const { url, fetch } = this.#address;
    try {
      const upstream = await fetch(url, {
        method,
        headers: requestHeaders(request),
        ...(hasBody(method) ? { body: Buffer.from(sending.body) } : {}),
        signal,
      });
      if (!isRedirect(upstream)) return upstream;
      // An agent that followed it would be off the record.
      await upstream.body?.cancel();
      throw explainStatus(this.#room.server, upstream, { url, method });
    } catch (error) {
      if (signal.aborted) return undefined;
      const unreachable =
        error instanceof McpvalsError ? error : explainUnreachable(this.#room.server, url.href, error);
      this.#room.onLost(unreachable);
      sending.link.responds(method, 502, sending.ids);
      answerError(response, 502, { code: -32000, message: unreachable.message });
      return undefined;
    }
  }
}

function headerOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

const nothing: BodyMessages = { kind: "other" };

/**
 * Reads what an agent says to a server with an address; undefined when that cannot be told, since the server could read it
 * in another way. The body of a method that passes on none says nothing.
 */
function readAgentBody({ request, body }: HttpExchange): BodyMessages | undefined {
  if (body.length === 0 || !hasBody(request.method)) return nothing;
  if (isEncoded(request)) return undefined;
  const messages = readBody(body.toString("utf8"));
  return messages.kind === "other" ? undefined : messages;
}

/** Whether `fetch` sends a body with it. */
function hasBody(method: string | undefined): boolean {
  return method !== undefined && method !== "GET" && method !== "HEAD";
}

/** Whether the body is packed, or in other characters than UTF-8. */
function isEncoded({ headers }: IncomingMessage): boolean {
  const packed = headers["content-encoding"] ?? "identity";
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(headers["content-type"] ?? "")?.[1] ?? "utf-8";
  return packed.toLowerCase() !== "identity" || !/^utf-?8$/i.test(charset);
}

/** What is left of an agent's request, after the filters. */
export interface Outgoing {
  readonly body: Uint8Array;
  /** What filters answered in the server's place. */
  readonly answers: readonly WireMessage[];
  /** Requests that are never answered. */
  readonly dropped: readonly (string | number)[];
}

/**
 * Passes a body's messages through the filters. Gives what goes on to the server: the agent's own bytes, unless a filter
 * has changed something. undefined: nothing does, and the agent has got what it will get.
 */
async function passAgentBody(
  { request, response, body }: HttpExchange,
  messages: BodyMessages,
  link: AgentLink,
): Promise<Outgoing | undefined> {
  const before = wiresOf(messages);
  const problem = link.isFiltered ? requestProblem({ request, body }, messages) : undefined;
  if (problem !== undefined) {
    for (const wire of before) link.refuses(wire);
    answerError(response, 400, problem);
    return undefined;
  }
  const after: WireMessage[] = [];
  const answers: WireMessage[] = [];
  const dropped: (string | number)[] = [];
  let isCut = false;
  await Promise.all(
    before.map((wire) =>
      link.fromAgent(wire, (passage) => {
        if (passage.kind === "pass") after.push(passage.wire);
        else if (passage.kind === "answer") answers.push(passage.wire);
        else if (passage.kind === "disconnect") isCut = true;
        else dropped.push(...idsOf(wire));
      }),
    ),
  );
  if (isCut) link.cut();
  if (isCut || response.destroyed) return undefined;
  const isSame = after.length === before.length && after.every((wire, index) => wire === before[index]);
  if (isSame) return { body, answers, dropped };
  if (after.length > 0)
    return { body: Buffer.from(written(after, messages.kind === "batch")), answers, dropped };
  answerAlone({ response, link, answers, dropped, isBatch: messages.kind === "batch" });
  return undefined;
}

function idsOf({ message }: WireMessage): readonly (string | number)[] {
  const request = requestOf(message);
  return request === undefined ? [] : [request.id];
}

/** Messages as a body. */
function written(wires: readonly WireMessage[], isBatch: boolean): string {
  const texts = wires.map(({ text }) => text);
  return isBatch ? `[${texts.join(",")}]` : texts.join("");
}

/** The server hears nothing: what filters answered is the answer; a request that was dropped stays open for ever. */
function answerAlone(from: {
  readonly response: HttpExchange["response"];
  readonly link: AgentLink;
  readonly answers: readonly WireMessage[];
  readonly dropped: readonly (string | number)[];
  readonly isBatch: boolean;
}): void {
  const { response, link, answers } = from;
  if (answers.length > 0) {
    for (const answer of answers) link.delivers(answer);
    response.writeHead(200, { "content-type": "application/json" }).end(written(answers, from.isBatch));
  } else if (from.dropped.length === 0) response.writeHead(202).end();
}

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
async function relayResponse(
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
