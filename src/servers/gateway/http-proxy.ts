import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { McpvalsError } from "../../core/errors/error.ts";
import type { HttpAddress } from "../connections/host.ts";
import { chunksOf, eventsOf, eventWithData, type StreamEvent, wholeOf } from "../http/event-stream.ts";
import { explainStatus, explainUnreachable } from "../http/http-errors.ts";
import { isRedirect } from "../http/server-fetch.ts";
import {
  answeredId,
  type BodyMessages,
  errorCodes,
  type MessageId,
  readBody,
  readBytes,
  requestOf,
  type WireMessage,
  wiresOf,
} from "../messages/json-rpc.ts";
import { type AgentConnection, SessionlessClients } from "./agent-connection.ts";
import {
  answerError,
  type EndpointContext,
  type HttpExchange,
  type RequestHandler,
  writeTo,
} from "./endpoint.ts";
import { requestProblem } from "./request-checks.ts";

/** Methods that `fetch` can forward. */
const forwarded = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** One client of a server that is reached through the proxy. */
class ProxyClient {
  readonly connection: AgentConnection;
  /** How many requests are pending, by id. */
  readonly #pending = new Map<MessageId, number>();

  constructor(connection: AgentConnection) {
    this.connection = connection;
  }

  isWaitingFor(id: MessageId): boolean {
    return this.#pending.has(id);
  }

  /** Counts requests as pending until the result is called. */
  waitFor(ids: readonly MessageId[]): () => void {
    for (const id of ids) this.#pending.set(id, (this.#pending.get(id) ?? 0) + 1);
    return () => {
      for (const id of ids) {
        const left = (this.#pending.get(id) ?? 1) - 1;
        if (left === 0) this.#pending.delete(id);
        else this.#pending.set(id, left);
      }
    };
  }
}

/**
 * Forwards an agent's HTTP to a server with an address: a reverse proxy that changes nothing unless a filter does. An HTTP
 * client that speaks messages would not do here: what belongs to HTTP, such as ids of events and resumed streams, is part of
 * what agent and server agree on.
 */
export class ProxyHandler implements RequestHandler {
  readonly #context: EndpointContext;
  readonly #address: HttpAddress;
  readonly #sessions = new Map<string, ProxyClient>();
  readonly #sessionless: SessionlessClients<ProxyClient>;

  constructor(context: EndpointContext, address: HttpAddress) {
    this.#context = context;
    this.#address = address;
    this.#sessionless = new SessionlessClients(() => this.#newClient());
  }

  async handle(exchange: HttpExchange): Promise<void> {
    const { request, response } = exchange;
    const { method = "GET" } = request;
    if (!forwarded.includes(method))
      return answerError(response, 405, { code: errorCodes.server, message: "Method not allowed." });
    const messages = readAgentBody(exchange);
    if (messages === undefined)
      return answerError(response, 400, {
        code: errorCodes.parse,
        message: "Parse error: not a JSON-RPC message in UTF-8",
      });
    const requests = wiresOf(messages).flatMap(({ message }) => requestOf(message) ?? []);
    const ids = requests.map(({ id }) => id);
    const begins = requests.some((each) => each.method === "initialize");
    const { "mcp-session-id": sent } = request.headers;
    const session = Array.isArray(sent) ? sent[0] : sent;
    const client = this.#clientOf(session, begins, ids);
    response.once("close", client.waitFor(ids));
    response.once(
      "close",
      client.connection.onCut(() => response.destroy()),
    );
    const forwarding = new Forwarding(exchange, messages, {
      connection: client.connection,
      context: this.#context,
      address: this.#address,
      ids,
    });
    const upstream = await forwarding.send();
    if (upstream === undefined) return;
    if (begins && session === undefined) {
      const opened = upstream.headers.get("mcp-session-id");
      if (opened === null) this.#sessionless.add(client);
      else this.#sessions.set(opened, client);
    }
    await forwarding.receive(upstream);
    if (method !== "DELETE" || !upstream.ok || session === undefined) return;
    this.#sessions.get(session)?.connection.end();
    this.#sessions.delete(session);
  }

  #clientOf(session: string | undefined, begins: boolean, ids: readonly MessageId[]): ProxyClient {
    const known = session === undefined ? undefined : this.#sessions.get(session);
    return known ?? (begins ? this.#newClient() : this.#sessionless.pick(ids));
  }

  #newClient(): ProxyClient {
    return new ProxyClient(this.#context.connect("http"));
  }
}

/**
 * Reads the messages of an agent's request; undefined when the server could read the body in another way. A body that is not
 * forwarded has none.
 */
function readAgentBody({ request, body }: HttpExchange): BodyMessages | undefined {
  if (body.length === 0 || !hasBody(request.method)) return { kind: "other" };
  if (isEncoded(request)) return undefined;
  const messages = readBody(body.toString("utf8"));
  return messages.kind === "other" ? undefined : messages;
}

/** Whether `fetch` sends a body with a method. */
function hasBody(method: string | undefined): boolean {
  return method !== undefined && method !== "GET" && method !== "HEAD";
}

/** Whether the body is compressed, or in another character set than UTF-8. */
function isEncoded({ headers }: IncomingMessage): boolean {
  const encoding = headers["content-encoding"] ?? "identity";
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(headers["content-type"] ?? "")?.[1] ?? "utf-8";
  return encoding.toLowerCase() !== "identity" || !/^utf-?8$/i.test(charset);
}

interface ForwardingOptions {
  readonly connection: AgentConnection;
  readonly context: EndpointContext;
  readonly address: HttpAddress;
  /** Of the requests in the body. */
  readonly ids: readonly MessageId[];
}

/** One HTTP request of an agent on its way to the server, and the response on its way back. */
class Forwarding {
  readonly #exchange: HttpExchange;
  readonly #messages: BodyMessages;
  readonly #options: ForwardingOptions;
  /** Requests that the response has to answer. */
  readonly #unanswered: Set<MessageId>;
  /** What filters answered in place of the server. */
  readonly #answers: WireMessage[] = [];
  /** The server has named an event, so that the agent can resume a broken stream. */
  #isResumable = false;
  /** A filter dropped an answer: the response must not end, or the agent would notice. */
  #isHeldOpen = false;

  constructor(exchange: HttpExchange, messages: BodyMessages, options: ForwardingOptions) {
    this.#exchange = exchange;
    this.#messages = messages;
    this.#options = options;
    this.#unanswered = new Set(options.ids);
  }

  /** Sends what the filters pass to the server. Undefined when there is no response to relay; the agent has been answered. */
  async send(): Promise<Response | undefined> {
    const { request, response, signal } = this.#exchange;
    const { connection, context, address, ids } = this.#options;
    const body = await this.#filterBody();
    if (body === undefined) return undefined;
    const { method = "GET" } = request;
    try {
      const upstream = await address.fetch(address.url, {
        method,
        headers: requestHeaders(request),
        ...(hasBody(method) ? { body: Buffer.from(body) } : {}),
        signal,
      });
      if (isRedirect(upstream)) {
        // An agent that followed it would be off the record.
        await upstream.body?.cancel();
        throw explainStatus(context.server, upstream, { url: address.url, method });
      }
      connection.recordResponse(method, upstream.status, ids);
      return upstream;
    } catch (error) {
      if (signal.aborted) return undefined;
      const loss =
        error instanceof McpvalsError ? error : explainUnreachable(context.server, address.url.href, error);
      context.onLost(loss);
      connection.recordResponse(method, 502, ids);
      answerError(response, 502, { code: errorCodes.server, message: loss.message });
      return undefined;
    }
  }

  /**
   * Passes the messages through the filters. Gives the agent's own bytes, unless a filter has changed something; undefined
   * when nothing is left to send.
   */
  async #filterBody(): Promise<Uint8Array | undefined> {
    const { request, response, body } = this.#exchange;
    const { connection } = this.#options;
    const isBatch = this.#messages.kind === "batch";
    const before = wiresOf(this.#messages);
    const problem = connection.isFiltered ? requestProblem({ request, body }, this.#messages) : undefined;
    if (problem !== undefined) {
      for (const wire of before) connection.recordRefused(wire);
      answerError(response, 400, problem);
      return undefined;
    }
    const after: WireMessage[] = [];
    let hasDropped = false;
    let isCut = false;
    const filter = (wire: WireMessage): Promise<void> =>
      connection.fromAgent(wire, (decision) => {
        if (decision.kind === "pass") return void after.push(decision.wire);
        const id = requestOf(wire.message)?.id;
        if (decision.kind === "answer") this.#answers.push(decision.wire);
        else if (decision.kind === "disconnect") isCut = true;
        else if (id !== undefined) {
          hasDropped = true;
          this.#unanswered.delete(id);
        }
      });
    await Promise.all(before.map(filter));
    if (isCut) connection.cut();
    if (isCut || response.destroyed) return undefined;
    if (areSame(before, after)) return body;
    if (after.length > 0) return Buffer.from(bodyOf(after, isBatch));
    if (this.#answers.length > 0) this.#answerAlone(isBatch);
    // A dropped request stays open.
    else if (!hasDropped) response.writeHead(202).end();
    return undefined;
  }

  /** Relays a response, byte for byte but for what filters change. Never rejects for what a server does. */
  async receive(upstream: Response): Promise<void> {
    const type = (upstream.headers.get("content-type") ?? "").toLowerCase();
    try {
      if (type.startsWith("text/event-stream")) await this.#relayEvents(upstream);
      // An agent may read an answer whatever its content type is.
      else if (type.startsWith("application/json") || this.#unanswered.size > 0)
        await this.#relayJson(upstream);
      else await this.#relayBytes(upstream);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** The server's response broke off, or goes beyond a limit. */
  #fail(error: unknown): void {
    const { signal, response, request } = this.#exchange;
    const { context, address } = this.#options;
    if (signal.aborted) return;
    if (error instanceof McpvalsError) context.onLost(error);
    else if (request.method === "POST" && this.#unanswered.size > 0 && !this.#isResumable)
      context.onLost(explainUnreachable(context.server, address.url.href, error));
    const message = error instanceof Error ? error.message : String(error);
    answerError(response, 502, { code: errorCodes.server, message });
  }

  /** Reads the whole body, since filters have to see its messages before the agent does. */
  async #relayJson(upstream: Response): Promise<void> {
    const { response } = this.#exchange;
    const { connection } = this.#options;
    const bytes = await wholeOf(chunksOf(upstream), this.#reading());
    const messages = readBytes(bytes);
    if (messages.kind === "other" && this.#answers.length > 0) return this.#answerAlone(true);
    const before = wiresOf(messages);
    const after = await this.#filterAnswers(before);
    if (response.destroyed || connection.ended.aborted) return;
    const isSame = areSame(before, after);
    if (!isSame && after.length === 0 && this.#answers.length === 0) return;
    const given = [...after, ...this.#answers];
    for (const wire of given) connection.recordDelivered(wire);
    const body =
      isSame && this.#answers.length === 0
        ? bytes
        : Buffer.from(bodyOf(given, messages.kind === "batch" || given.length > 1));
    const headers = { ...responseHeaders(upstream), "content-length": body.length };
    response.writeHead(upstream.status, headers).end(body);
  }

  async #relayEvents(upstream: Response): Promise<void> {
    const { response } = this.#exchange;
    response.writeHead(upstream.status, responseHeaders(upstream));
    // Together with the first event, if that has arrived.
    setImmediate(() => response.flushHeaders());
    for (const answer of this.#answers) {
      this.#options.connection.recordDelivered(answer);
      await writeTo(response, `event: message\ndata: ${answer.text}\n\n`);
    }
    for await (const event of eventsOf(chunksOf(upstream), this.#reading())) await this.#relayEvent(event);
    if (!this.#isHeldOpen) response.end();
  }

  async #relayEvent(event: StreamEvent): Promise<void> {
    const { response } = this.#exchange;
    const { bytes, data, event: name = "message", id } = event;
    if (id !== undefined) this.#isResumable = true;
    const before = data === undefined || name !== "message" ? [] : wiresOf(readBytes(bytes, data));
    if (before.length === 0) return writeTo(response, bytes);
    const after = await this.#filterAnswers(before);
    if (response.destroyed || after.length === 0) return;
    for (const wire of after) this.#options.connection.recordDelivered(wire);
    const isSame = areSame(before, after);
    await writeTo(response, isSame ? bytes : eventWithData(event, bodyOf(after, before.length > 1)));
  }

  async #relayBytes(upstream: Response): Promise<void> {
    const { response } = this.#exchange;
    if (this.#answers.length > 0) return this.#answerAlone(true);
    response.writeHead(upstream.status, responseHeaders(upstream));
    for await (const chunk of chunksOf(upstream)) await writeTo(response, chunk);
    response.end();
  }

  /** Passes messages of the server through the filters. */
  async #filterAnswers(wires: readonly WireMessage[]): Promise<WireMessage[]> {
    const { connection } = this.#options;
    const passed: WireMessage[] = [];
    for (const wire of wires) {
      const id = answeredId(wire.message);
      if (id !== undefined) this.#unanswered.delete(id);
      await connection.fromServer(wire, (decision) => {
        if (decision.kind === "pass" || decision.kind === "answer") passed.push(decision.wire);
        else if (decision.kind === "disconnect") connection.cut();
        else if (id !== undefined) this.#isHeldOpen = true;
      });
    }
    return passed;
  }

  /** Gives only what filters answered. */
  #answerAlone(isBatch: boolean): void {
    for (const answer of this.#answers) this.#options.connection.recordDelivered(answer);
    const { response } = this.#exchange;
    response.writeHead(200, { "content-type": "application/json" }).end(bodyOf(this.#answers, isBatch));
  }

  #reading(): { server: string; limit: number } {
    const { context, address } = this.#options;
    return { server: context.server, limit: address.maxMessageBytes };
  }
}

function areSame(before: readonly WireMessage[], after: readonly WireMessage[]): boolean {
  return after.length === before.length && after.every((wire, index) => wire === before[index]);
}

function bodyOf(wires: readonly WireMessage[], isBatch: boolean): string {
  const texts = wires.map(({ text }) => text);
  return isBatch ? `[${texts.join(",")}]` : texts.join("");
}

/** Headers that concern one connection only (RFC 9110, 7.6.1). */
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
 * Not for the server: `fetch` writes some itself, bodies are sent unpacked, and the agent's credentials and origin are not the
 * server's business.
 */
const notForwarded = new Set([
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

/** Not for the agent: what leads around the gateway (another address, a login), and what described the packed body. */
const notReturned = new Set([
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
    if (!notForwarded.has(name)) for (const value of values ?? []) headers.append(name, value);
  headers.set("accept-encoding", "identity");
  return headers;
}

/** A server's headers as the agent gets them. */
export function responseHeaders(response: Response): OutgoingHttpHeaders {
  return Object.fromEntries([...response.headers].filter(([name]) => !notReturned.has(name)));
}
