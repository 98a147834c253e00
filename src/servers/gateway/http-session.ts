import { maxKeptBytes } from "../../base/limits.ts";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { randomUUID } from "node:crypto";
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Channel, ServerHost } from "../connections/host.ts";
import {
  answeredId,
  type BodyMessages,
  idAt,
  type MessageId,
  readBody,
  requestOf,
  type WireMessage,
  wireMessage,
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

/**
 * Serves Streamable HTTP to an agent, in front of a server that is reached over a channel. A session begins with `initialize`
 * and has a channel of its own. Requests without a session, as in 2026-07-28, share a channel as long as their ids differ.
 */
export class StreamableHttpHandler {
  readonly #host: ServerHost;
  readonly #connect: () => AgentConnection;
  readonly #sessions = new Map<string, HttpSession>();
  readonly #sessionless = new Set<HttpSession>();

  /** `connect` begins a new connection of the agent. */
  constructor(host: ServerHost, connect: () => AgentConnection) {
    this.#host = host;
    this.#connect = connect;
  }

  /** Answers a request. Rejects only for a bug in mcpvals. */
  async handle(exchange: HttpExchange): Promise<void> {
    const { request, response, body } = exchange;
    const { method } = request;
    const id = sessionOf(exchange);
    const session = id === undefined ? undefined : this.#sessions.get(id);
    const messages = method === "POST" ? readBody(body.toString("utf8")) : undefined;
    if (messages?.kind === "other")
      return answerError(response, 400, errorCodes.parse, "Parse error: not a JSON-RPC message");
    if (id !== undefined && session === undefined)
      return answerError(response, 404, errorCodes.sessionNotFound, "Session not found");
    if (messages !== undefined) return (session ?? this.#withoutSession(messages)).post(exchange, messages);
    if (session === undefined || (method !== "GET" && method !== "DELETE")) {
      response.setHeader("allow", session === undefined ? "POST" : "GET, POST, DELETE");
      return answerError(response, 405, errorCodes.server, "Method not allowed.");
    }
    if (method === "GET") return session.get(exchange);
    session.end();
    response.writeHead(200).end();
  }

  #withoutSession(messages: BodyMessages): HttpSession {
    const requests = messages.wires.flatMap(({ message }) => requestOf(message) ?? []);
    if (requests.some(({ method }) => method === "initialize")) {
      const id = randomUUID();
      const session = new HttpSession(id, this.#connect(), this.#host, () => this.#sessions.delete(id));
      this.#sessions.set(id, session);
      return session;
    }
    const ids = requests.map(({ id }) => id);
    return pickClient(this.#sessionless, ids, () => {
      const onEnded = (): unknown => this.#sessionless.delete(session);
      const session = new HttpSession(undefined, this.#connect(), this.#host, onEnded);
      return session;
    });
  }
}

/** One client over Streamable HTTP, with a channel of its own to the server. */
class HttpSession {
  /** Undefined: a client without a session. */
  readonly #id: string | undefined;
  readonly #connection: AgentConnection;
  readonly #server: string;
  readonly #channel: Channel;
  /** Called when the server or the agent has ended it. */
  readonly #onEnded: () => unknown;
  /** Open requests by id. */
  readonly #posts = new Map<MessageId, Post>();
  /** Messages without a response to go out on yet, and their length in characters. */
  readonly #waiting: WireMessage[] = [];
  #waitingLength = 0;
  /** What belongs to no request goes out here. */
  #stream: EventStream | undefined;
  #isEnded = false;

  constructor(id: string | undefined, connection: AgentConnection, host: ServerHost, onEnded: () => unknown) {
    this.#id = id;
    this.#connection = connection;
    this.#server = host.name;
    this.#onEnded = onEnded;
    this.#channel = host.open({
      onMessage: (wire) => this.#receive(wire),
      onClosed: (reason) => this.#serverEnded(reason),
      rateLimitNotes: (method, ids) => connection.rateLimitNotes(method, ids),
    });
    connection.ended.addEventListener("abort", () => this.end(), { once: true });
  }

  isWaitingFor(id: MessageId): boolean {
    return this.#posts.has(id);
  }

  /** Sends an agent's messages to the server; requests keep the response open until they are answered. */
  async post(exchange: HttpExchange, messages: BodyMessages): Promise<void> {
    const { response } = exchange;
    const wires = messages.wires;
    const problem = this.#connection.isFiltered ? requestProblem(exchange, messages) : undefined;
    if (problem !== undefined) {
      for (const wire of wires) this.#connection.recordRefused(wire);
      return answerError(response, 400, problem.code, problem.message);
    }
    response.once(
      "close",
      this.#connection.onCut(() => response.destroy()),
    );
    const ids = wires.flatMap(({ message }) => requestOf(message)?.id ?? []);
    const post = ids.length === 0 ? undefined : this.#openPost(exchange, messages, ids);
    try {
      await Promise.all(wires.map((wire) => this.#forward(wire, post)));
    } catch (error) {
      if (error instanceof McpvalsError) this.#connection.lose(error);
      else if (!this.#isEnded) throw error;
      const message = messageOf(error);
      return answerError(response, 502, errorCodes.server, message);
    }
    if (post === undefined && !response.destroyed) response.writeHead(202, this.#headers()).end();
  }

  /** Opens the stream for messages that belong to no request; an earlier one ends. */
  get({ response }: HttpExchange): void {
    this.#stream?.end();
    const release = this.#connection.onCut(() => response.destroy());
    const stream = new EventStream(response, this.#headers());
    this.#stream = stream;
    response.once("close", () => {
      release();
      if (this.#stream === stream) this.#stream = undefined;
    });
    this.#flush(stream);
  }

  /** Ends the session. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    void this.#channel.close();
    this.#connection.end();
    this.#onEnded();
  }

  #headers(): OutgoingHttpHeaders {
    return this.#id === undefined ? {} : { "mcp-session-id": this.#id };
  }

  #openPost(exchange: HttpExchange, messages: BodyMessages, ids: readonly MessageId[]): Post {
    const post = new Post(exchange, messages, ids, this.#headers());
    for (const id of ids) this.#posts.set(id, post);
    exchange.response.once("close", () => {
      for (const id of ids) if (this.#posts.get(id) === post) this.#posts.delete(id);
      // Without a session, leaving is the only way to cancel a request.
      if (this.#id !== undefined || this.#isEnded) return;
      for (const requestId of post.unanswered) {
        const cancelled = {
          jsonrpc: "2.0",
          method: "notifications/cancelled",
          params: { requestId },
        } as const;
        // A server that is gone does not need it.
        this.#channel.send(wireMessage(cancelled)).catch(() => undefined);
      }
    });
    return post;
  }

  #forward(wire: WireMessage, post: Post | undefined): Promise<void> {
    return this.#connection.fromAgent(wire, (decision) => {
      switch (decision.kind) {
        case "pass":
          if (post?.takesEvents === true) this.#flush(post);
          return this.#channel.send(decision.wire);
        case "answer":
          return this.#answer(decision.wire);
        case "disconnect":
          return this.#connection.cut();
        case "drop":
          return undefined;
      }
    });
  }

  #receive(wire: WireMessage): void {
    const passing = this.#connection.fromServer(wire, (decision) => {
      if (decision.kind === "pass" && decision.before !== undefined) this.#route(decision.before);
      if (decision.kind === "disconnect") this.#connection.cut();
      else if (decision.kind === "drop") return;
      else if (answeredId(decision.wire.message) === undefined) this.#route(decision.wire);
      else this.#answer(decision.wire);
    });
    // A filter that throws is a bug; the agent must not wait forever.
    passing.catch(() => this.#connection.cut());
  }

  #answer(wire: WireMessage): void {
    const id = answeredId(wire.message);
    const post = id === undefined ? undefined : this.#posts.get(id);
    // The agent has left, or the server answers twice.
    if (id === undefined || post === undefined) return;
    this.#posts.delete(id);
    this.#connection.recordDelivered(wire);
    post.answer(id, wire);
  }

  /**
   * Sends a request or notification of the server's: on the response of the request that it names, else on the response of the
   * latest request, else on the stream; notifications of changes go to the stream first. If there is none of them, it waits.
   */
  #route(wire: WireMessage): void {
    const open = [...new Set(this.#posts.values())].filter(({ takesEvents }) => takesEvents);
    const stream = this.#stream?.isOpen === true ? this.#stream : undefined;
    const named = this.#namedBy(wire, open);
    const latest = open.at(-1);
    const target =
      named?.takesEvents === true ? named : isAboutRequests(wire) ? (latest ?? stream) : (stream ?? latest);
    if (target !== undefined) return this.#send(target, wire);
    this.#waitingLength += wire.text.length;
    if (this.#waitingLength <= maxKeptBytes) return void this.#waiting.push(wire);
    this.#serverEnded(
      new McpvalsError(
        "server/protocol-error",
        `server "${this.#server}" sent more than ${maxKeptBytes / 1024 / 1024} MiB that no client received`,
        { hint: "Check whether it sends notifications in a loop." },
      ),
    );
  }

  /** A subscription is named by its request's id, progress by the token of its request. */
  #namedBy({ message }: WireMessage, open: readonly Post[]): Post | undefined {
    const subscription = idAt(message, ["params", "_meta", "io.modelcontextprotocol/subscriptionId"]);
    if (subscription !== undefined) return this.#posts.get(subscription);
    const token = idAt(message, ["params", "progressToken"]);
    return token === undefined ? undefined : open.find(({ tokens }) => tokens.has(token));
  }

  #flush(target: Post | EventStream): void {
    this.#waitingLength = 0;
    for (const wire of this.#waiting.splice(0)) this.#send(target, wire);
  }

  #send(target: Post | EventStream, wire: WireMessage): void {
    this.#connection.recordDelivered(wire);
    target.send(wire);
  }

  #serverEnded(reason: McpvalsError | undefined): void {
    if (reason !== undefined) this.#connection.lose(reason);
    const message = reason?.message ?? `server "${this.#server}" has ended the exchange`;
    for (const post of new Set(this.#posts.values())) post.fail(502, message);
    this.#posts.clear();
    this.#stream?.end();
    this.end();
  }
}

/** Requests, log messages and progress belong to a pending request. */
function isAboutRequests({ message }: WireMessage): boolean {
  if (!("method" in message)) return false;
  return "id" in message || ["notifications/message", "notifications/progress"].includes(message.method);
}

/** How long a request may take before the response begins, in milliseconds: clients give up when nothing arrives. */
const silenceMs = 15_000;

/**
 * The response to a POST with requests. It is JSON when the answers are all that there is to say, and a stream of events when
 * something else comes first, or the client names streams before JSON.
 */
class Post {
  /** Progress tokens of the requests. */
  readonly tokens: ReadonlySet<unknown>;
  /** Requests that have no answer yet. */
  readonly unanswered: Set<MessageId>;
  readonly #response: ServerResponse;
  readonly #headers: OutgoingHttpHeaders;
  readonly #isBatch: boolean;
  readonly #answers: WireMessage[] = [];
  readonly #acceptsEvents: boolean;
  readonly #prefersEvents: boolean;
  readonly #silence: NodeJS.Timeout | undefined;
  #stream: EventStream | undefined;

  constructor(
    { request, response }: HttpExchange,
    messages: BodyMessages,
    ids: readonly MessageId[],
    headers: OutgoingHttpHeaders,
  ) {
    const path = ["params", "_meta", "progressToken"];
    this.tokens = new Set(messages.wires.map(({ message }) => idAt(message, path)));
    this.unanswered = new Set(ids);
    this.#response = response;
    this.#headers = headers;
    this.#isBatch = messages.kind === "batch";
    const { accept = "" } = request.headers;
    this.#acceptsEvents = /text\/event-stream|\*\/\*/.test(accept);
    this.#prefersEvents = /^\s*text\/event-stream/.test(accept);
    if (this.#acceptsEvents) this.#silence = setTimeout(() => this.#begin(), silenceMs);
    response.once("close", () => clearTimeout(this.#silence));
  }

  /** Whether what is not an answer can go out here. */
  get takesEvents(): boolean {
    return this.#acceptsEvents && !this.#response.destroyed && !this.#response.writableEnded;
  }

  /** Sends what is not an answer. */
  send(wire: WireMessage): void {
    this.#begin().send(wire);
  }

  /** Sends an answer; the last one ends the response. */
  answer(id: MessageId, wire: WireMessage): void {
    this.unanswered.delete(id);
    if (this.#stream === undefined) this.#answers.push(wire);
    else this.#stream.send(wire);
    if (this.unanswered.size > 0) return;
    clearTimeout(this.#silence);
    if (this.#prefersEvents) this.#begin();
    if (this.#stream !== undefined) return this.#stream.end();
    const texts = this.#answers.map(({ text }) => text).join(",");
    const body = Buffer.from(this.#isBatch ? `[${texts}]` : texts);
    const headers = { "content-type": "application/json", "content-length": body.length };
    this.#response.writeHead(200, { ...headers, ...this.#headers }).end(body);
  }

  /** There will be no answer. */
  fail(status: number, message: string): void {
    clearTimeout(this.#silence);
    answerError(this.#response, status, errorCodes.server, message);
  }

  #begin(): EventStream {
    clearTimeout(this.#silence);
    if (this.#stream === undefined) {
      this.#stream = new EventStream(this.#response, this.#headers);
      for (const answer of this.#answers.splice(0)) this.#stream.send(answer);
    }
    return this.#stream;
  }
}

/** How often a comment is sent, in milliseconds, so that no client takes a quiet stream for a dead one. */
const pulseMs = 60_000;

class EventStream {
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
