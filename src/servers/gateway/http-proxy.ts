import { McpvalsError, messageOf } from "../../base/error.ts";
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { HttpAddress, HttpRequest, HttpResponse } from "../connections/host.ts";
import { eventsOf, eventWithData, type ReadLimits, wholeOf } from "../http/event-stream.ts";
import { explainStatus, explainUnreachable, type Place } from "../http/http-errors.ts";
import { isRedirect } from "../http/server-requests.ts";
import {
  answeredId,
  isRepeatable,
  type BodyMessages,
  type MessageId,
  readBody,
  readBytes,
  requestOf,
  type WireMessage,
} from "../messages/json-rpc.ts";
import {
  type AgentConnection,
  answerError,
  type HttpExchange,
  pickClient,
  requestProblem,
  sessionOf,
} from "./endpoint.ts";
import { errorCodes } from "../../model/error-codes.ts";

/** Methods that `fetch` can forward. */
const forwarded = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** One client of a server that is reached through the proxy. */
class ProxyClient {
  readonly connection: AgentConnection;
  /** Ids of the requests in each pending exchange. */
  readonly pending = new Set<readonly MessageId[]>();

  constructor(connection: AgentConnection) {
    this.connection = connection;
  }

  isWaitingFor(id: MessageId): boolean {
    return [...this.pending].some((ids) => ids.includes(id));
  }
}

/**
 * Forwards an agent's HTTP to a server with an address: a reverse proxy that changes nothing unless a filter does. An HTTP
 * client that speaks messages would not do here: what belongs to HTTP, such as ids of events and resumed streams, is part of
 * what agent and server agree on.
 */
export class ProxyHandler {
  readonly #server: string;
  readonly #connect: () => AgentConnection;
  readonly #address: HttpAddress;
  readonly #sessions = new Map<string, ProxyClient>();
  readonly #sessionless = new Set<ProxyClient>();

  /** `connect` begins a new connection of the agent. */
  constructor(server: string, address: HttpAddress, connect: () => AgentConnection) {
    this.#server = server;
    this.#address = address;
    this.#connect = connect;
  }

  /** Answers a request. Rejects only for a bug in mcpvals. */
  async handle(exchange: HttpExchange): Promise<void> {
    const { request, response } = exchange;
    const { method = "GET" } = request;
    if (!forwarded.includes(method))
      return answerError(response, 405, errorCodes.server, "Method not allowed.");
    const messages = readAgentBody(exchange);
    if (messages === undefined)
      return answerError(response, 400, errorCodes.parse, "Parse error: not a JSON-RPC message in UTF-8");
    const requests = messages.wires.flatMap(({ message }) => requestOf(message) ?? []);
    const ids = requests.map(({ id }) => id);
    const begins = requests.some((each) => each.method === "initialize");
    const session = sessionOf(exchange);
    const open = (): ProxyClient => new ProxyClient(this.#connect());
    const known = session === undefined ? undefined : this.#sessions.get(session);
    const client = known ?? (begins ? open() : pickClient(this.#sessionless, ids, open));
    const { connection } = client;
    client.pending.add(ids);
    response.once("close", () => client.pending.delete(ids));
    response.once(
      "close",
      connection.onCut(() => response.destroy()),
    );
    const forwarding = new Forwarding(exchange, messages, ids, connection, this.#server, this.#address);
    const upstream = await forwarding.send();
    if (upstream === undefined) return;
    if (begins && session === undefined) {
      const opened = upstream.headers["mcp-session-id"];
      if (opened === undefined) this.#sessionless.add(client);
      else this.#sessions.set(opened, client);
    }
    await forwarding.receive(upstream);
    if (method !== "DELETE" || !upstream.ok || session === undefined) return;
    this.#sessions.get(session)?.connection.end();
    this.#sessions.delete(session);
  }
}

/**
 * Reads the messages of an agent's request; undefined when the server could read the body in another way: compressed, in another
 * character set than UTF-8, or no messages. A body that is not forwarded has none.
 */
function readAgentBody({ request: { method, headers }, body }: HttpExchange): BodyMessages | undefined {
  if (body.length === 0 || !hasBody(method)) return { kind: "other", wires: [] };
  const encoding = headers["content-encoding"] ?? "identity";
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(headers["content-type"] ?? "")?.[1] ?? "utf-8";
  if (encoding.toLowerCase() !== "identity" || !/^utf-?8$/i.test(charset)) return undefined;
  const messages = readBody(body.toString("utf8"));
  return messages.kind === "other" ? undefined : messages;
}

/** Whether `fetch` sends a body with a method. */
function hasBody(method: string | undefined): boolean {
  return method !== undefined && method !== "GET" && method !== "HEAD";
}

/** One HTTP request of an agent on its way to the server, and the response on its way back. */
class Forwarding {
  readonly #exchange: HttpExchange;
  readonly #response: ServerResponse;
  readonly #messages: BodyMessages;
  /** Ids of the requests in the body. */
  readonly #ids: readonly MessageId[];
  readonly #connection: AgentConnection;
  readonly #address: HttpAddress;
  readonly #place: Place & ReadLimits;
  /** Requests that the response has to answer. */
  readonly #unanswered: Set<MessageId>;
  /** What filters answered in place of the server. */
  readonly #answers: WireMessage[] = [];
  /** The server has named an event, so that the agent can resume a broken stream. */
  #isResumable = false;
  /** A filter dropped an answer: the response must not end, or the agent would notice. */
  #isHeldOpen = false;

  constructor(
    exchange: HttpExchange,
    messages: BodyMessages,
    ids: readonly MessageId[],
    connection: AgentConnection,
    server: string,
    address: HttpAddress,
  ) {
    this.#exchange = exchange;
    this.#response = exchange.response;
    this.#messages = messages;
    this.#ids = ids;
    this.#connection = connection;
    this.#address = address;
    this.#place = { server, url: address.url, limit: address.maxMessageBytes };
    this.#unanswered = new Set(ids);
  }

  /** Sends what the filters pass to the server. Undefined when there is no response to relay; the agent has been answered. */
  async send(): Promise<HttpResponse | undefined> {
    const { request, signal } = this.#exchange;
    const { method = "GET" } = request;
    const before = this.#messages.wires;
    const body = await this.#filterBody();
    if (body === undefined) return undefined;
    try {
      const upstream = await this.#address.send(
        this.#address.url,
        {
          method,
          headers: requestHeaders(request),
          ...(hasBody(method) ? { body } : {}),
          signal,
          isRepeatable: before.length > 0 && before.every(({ message }) => isRepeatable(message)),
        },
        this.#connection.rateLimitNotes(method, this.#ids),
      );
      if (isRedirect(upstream)) {
        // An agent that followed it would be off the record.
        upstream.cancel();
        throw explainStatus(this.#place, method, upstream);
      }
      this.#connection.recordResponse(method, upstream.status, this.#ids);
      return upstream;
    } catch (error) {
      if (signal.aborted) return undefined;
      const loss = explainUnreachable(this.#place, error);
      this.#connection.lose(loss);
      this.#connection.recordResponse(method, 502, this.#ids);
      answerError(this.#response, 502, errorCodes.server, loss.message);
      return undefined;
    }
  }

  /**
   * Passes the messages through the filters. Gives the agent's own bytes, unless a filter has changed something; undefined
   * when nothing is left to send.
   */
  async #filterBody(): Promise<Uint8Array | undefined> {
    const connection = this.#connection;
    const response = this.#response;
    const isBatch = this.#messages.kind === "batch";
    const before = this.#messages.wires;
    const problem = connection.isFiltered ? requestProblem(this.#exchange, this.#messages) : undefined;
    if (problem !== undefined) {
      for (const wire of before) connection.recordRefused(wire);
      answerError(response, 400, problem.code, problem.message);
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
    if (areSame(before, after)) return this.#exchange.body;
    if (after.length > 0) return Buffer.from(bodyOf(after, isBatch));
    if (this.#answers.length > 0) this.#answerAlone(isBatch);
    // A dropped request stays open.
    else if (!hasDropped) response.writeHead(202).end();
    return undefined;
  }

  /** Relays a response, byte for byte but for what filters change. Never rejects for what a server does. */
  async receive(upstream: HttpResponse): Promise<void> {
    const type = (upstream.headers["content-type"] ?? "").toLowerCase();
    try {
      if (type.startsWith("text/event-stream")) await this.#relayEvents(upstream);
      // An agent may read an answer whatever its content type is.
      else if (type.startsWith("application/json") || this.#unanswered.size > 0)
        await this.#relayJson(upstream);
      else await this.#relayBytes(upstream);
    } catch (error) {
      // The server's response broke off, or goes beyond a limit.
      const { request, signal } = this.#exchange;
      if (signal.aborted) return;
      const isLost = request.method === "POST" && this.#unanswered.size > 0 && !this.#isResumable;
      if (isLost || error instanceof McpvalsError)
        this.#connection.lose(explainUnreachable(this.#place, error));
      const message = messageOf(error);
      answerError(this.#response, 502, errorCodes.server, message);
    }
  }

  /** Reads the whole body, since filters have to see its messages before the agent does. */
  async #relayJson(upstream: HttpResponse): Promise<void> {
    const bytes = await wholeOf(upstream, this.#place);
    const messages = readBytes(bytes);
    if (messages.kind === "other" && this.#answers.length > 0) return this.#answerAlone(true);
    const before = messages.wires;
    const after = await this.#filterAnswers(before);
    if (this.#response.destroyed || this.#connection.ended.aborted) return;
    const isSame = areSame(before, after);
    if (!isSame && after.length === 0 && this.#answers.length === 0) return;
    const given = [...after, ...this.#answers];
    for (const wire of given) this.#connection.recordDelivered(wire);
    if (messages.kind === "message" && after.length > 1) {
      // What a filter sends besides the answer needs a stream.
      const headers = { ...responseHeaders(upstream), "content-type": "text/event-stream" };
      return void this.#response.writeHead(upstream.status, headers).end(given.map(eventText).join(""));
    }
    const body =
      isSame && this.#answers.length === 0
        ? bytes
        : Buffer.from(bodyOf(given, messages.kind === "batch" || given.length > 1));
    const headers = { ...responseHeaders(upstream), "content-length": body.length };
    this.#response.writeHead(upstream.status, headers).end(body);
  }

  async #relayEvents(upstream: HttpResponse): Promise<void> {
    const response = this.#response;
    response.writeHead(upstream.status, responseHeaders(upstream));
    // Together with the first event, if that has arrived.
    setImmediate(() => response.flushHeaders());
    for (const answer of this.#answers) {
      this.#connection.recordDelivered(answer);
      await this.#write(eventText(answer));
    }
    for await (const event of eventsOf(upstream, this.#place)) {
      const { bytes, data, event: name = "message", id } = event;
      if (id !== undefined) this.#isResumable = true;
      const before = data === undefined || name !== "message" ? [] : readBytes(bytes, data).wires;
      if (before.length === 0) {
        await this.#write(bytes);
        continue;
      }
      const after = await this.#filterAnswers(before);
      if (response.destroyed || after.length === 0) continue;
      for (const wire of after) this.#connection.recordDelivered(wire);
      const isSame = areSame(before, after);
      const more = after.splice(0, after.length - before.length);
      for (const wire of more) await this.#write(eventText(wire));
      await this.#write(isSame ? bytes : eventWithData(event, bodyOf(after, before.length > 1)));
    }
    if (!this.#isHeldOpen) response.end();
  }

  async #relayBytes(upstream: HttpResponse): Promise<void> {
    if (this.#answers.length > 0) return this.#answerAlone(true);
    this.#response.writeHead(upstream.status, responseHeaders(upstream));
    for await (const chunk of upstream.body) await this.#write(chunk);
    this.#response.end();
  }

  /** Passes messages of the server through the filters. */
  async #filterAnswers(wires: readonly WireMessage[]): Promise<WireMessage[]> {
    const passed: WireMessage[] = [];
    for (const wire of wires) {
      const id = answeredId(wire.message);
      if (id !== undefined) this.#unanswered.delete(id);
      await this.#connection.fromServer(wire, (decision) => {
        if (decision.kind === "pass" && decision.before !== undefined) passed.push(decision.before);
        if (decision.kind === "pass" || decision.kind === "answer") passed.push(decision.wire);
        else if (decision.kind === "disconnect") this.#connection.cut();
        else if (id !== undefined) this.#isHeldOpen = true;
      });
    }
    return passed;
  }

  /** Gives only what filters answered. */
  #answerAlone(isBatch: boolean): void {
    for (const answer of this.#answers) this.#connection.recordDelivered(answer);
    const headers = { "content-type": "application/json" };
    this.#response.writeHead(200, headers).end(bodyOf(this.#answers, isBatch));
  }

  /** Writes, and waits while the agent reads too slowly; also settles when it has left. */
  async #write(bytes: Uint8Array | string): Promise<void> {
    const response = this.#response;
    if (response.destroyed || response.writableEnded || response.write(bytes)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const event of ["drain", "close"]) response.once(event, resolve);
    await promise;
    for (const event of ["drain", "close"]) response.off(event, resolve);
  }
}

function eventText({ text }: WireMessage): string {
  return `event: message\ndata: ${text}\n\n`;
}

function areSame(before: readonly WireMessage[], after: readonly WireMessage[]): boolean {
  return after.length === before.length && after.every((wire, index) => wire === before[index]);
}

function bodyOf(wires: readonly WireMessage[], isBatch: boolean): string {
  const texts = wires.map(({ text }) => text);
  return isBatch ? `[${texts.join(",")}]` : texts.join("");
}

/** Headers that concern one connection only (RFC 9110, 7.6.1). */
const hopByHop =
  "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade";

/**
 * Not for the server: `fetch` writes some itself, bodies are sent unpacked, and the agent's credentials and origin are not the
 * server's business.
 */
const notForwarded = new Set(
  `${hopByHop} accept-encoding authorization content-length cookie expect host origin referer`.split(" "),
);

/** Not for the agent: what leads around the gateway (another address, a login), and what described the packed body. */
const notReturned = new Set(
  `${hopByHop} alt-svc content-encoding content-length content-location location set-cookie www-authenticate`.split(
    " ",
  ),
);

/** An agent's headers as the server gets them. */
export function requestHeaders(request: IncomingMessage): HttpRequest["headers"] {
  const headers: Record<string, string> = { "accept-encoding": "identity" };
  for (const [name, values = []] of Object.entries(request.headersDistinct))
    if (!notForwarded.has(name)) headers[name] = values.join(", ");
  return headers;
}

/** A server's headers as the agent gets them. */
export function responseHeaders(response: Pick<HttpResponse, "headers">): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(response.headers).filter(([name]) => !notReturned.has(name)));
}
