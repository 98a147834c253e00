import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { McpvalsError } from "../../core/errors/error.ts";
import type { Channel, ServerHost } from "../connections/host.ts";
import type { FilterDecision } from "../filters/filter-chain.ts";
import {
  errorCodes,
  answeredId,
  type BodyMessages,
  idAt,
  requestOf,
  type WireMessage,
  wireMessage,
  wiresOf,
} from "../messages/json-rpc.ts";
import type { AgentConnection } from "./agent-connection.ts";
import { answerError, type HttpExchange } from "./endpoint.ts";
import { requestProblem } from "./request-checks.ts";

export interface HttpSessionOptions {
  readonly connection: AgentConnection;
  readonly host: ServerHost;
  /** Absent: a client without a session. */
  readonly id?: string;
  /** Called when the server or the agent has ended it. */
  readonly onEnded: () => void;
  /** Called when the server broke the protocol so badly that the session cannot go on. */
  readonly onLost: (error: McpvalsError) => void;
}

/** One client over Streamable HTTP, with a channel of its own to the server. */
export class HttpSession {
  readonly #options: HttpSessionOptions;
  readonly #channel: Channel;
  readonly #posts = new Map<string | number, Post>();
  /** Messages without a response to go out on yet, and their length in characters. */
  readonly #waiting: WireMessage[] = [];
  #waitingLength = 0;
  #stream: EventStream | undefined;
  #isEnded = false;

  constructor(options: HttpSessionOptions) {
    this.#options = options;
    this.#channel = options.host.open({
      onMessage: (wire) => this.#receive(wire),
      onClosed: (reason) => this.#serverEnded(reason),
    });
    options.connection.ended.addEventListener("abort", () => this.end(), { once: true });
  }

  isWaitingFor(id: string | number): boolean {
    return this.#posts.has(id);
  }

  /** Sends an agent's messages to the server; requests keep the response open until they are answered. */
  async post(exchange: HttpExchange, messages: BodyMessages): Promise<void> {
    const { connection } = this.#options;
    const wires = wiresOf(messages);
    const problem = connection.isFiltered ? requestProblem(exchange, messages) : undefined;
    if (problem !== undefined) {
      for (const wire of wires) connection.recordRefused(wire);
      return answerError(exchange.response, 400, problem);
    }
    const ids = wires.flatMap(({ message }) => requestOf(message)?.id ?? []);
    const release = connection.onCut(() => exchange.response.destroy());
    exchange.response.once("close", release);
    const post = ids.length === 0 ? undefined : this.#openPost(exchange, messages, ids);
    try {
      await Promise.all(wires.map((wire) => this.#forward(wire, post)));
    } catch (error) {
      this.#undelivered(exchange.response, error);
      return;
    }
    if (post === undefined && !exchange.response.destroyed)
      exchange.response.writeHead(202, this.#headers()).end();
  }

  /** Opens the stream for messages that belong to no request; an earlier one ends. */
  get({ response }: HttpExchange): void {
    this.#stream?.end();
    const release = this.#options.connection.onCut(() => response.destroy());
    const stream = new EventStream(response, this.#headers());
    this.#stream = stream;
    response.once("close", () => {
      release();
      if (this.#stream === stream) this.#stream = undefined;
    });
    this.#flush((wire) => this.#deliver(wire, (given) => stream.send(given)));
  }

  /** Ends the session. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    void this.#channel.close();
    this.#options.connection.end();
    this.#options.onEnded();
  }

  #headers(): Record<string, string> {
    const { id } = this.#options;
    return id === undefined ? {} : { "mcp-session-id": id };
  }

  #openPost(exchange: HttpExchange, messages: BodyMessages, ids: readonly (string | number)[]): Post {
    const path = ["params", "_meta", "progressToken"];
    const tokens = new Set(wiresOf(messages).map(({ message }) => idAt(message, path)));
    const isBatch = messages.kind === "batch";
    const post = new Post(exchange, { ids, tokens, isBatch, headers: this.#headers() });
    for (const id of ids) this.#posts.set(id, post);
    exchange.response.once("close", () => this.#closed(post, ids));
    return post;
  }

  /** Without a session, leaving is the only way to cancel a request. */
  #closed(post: Post, ids: readonly (string | number)[]): void {
    for (const id of ids) if (this.#posts.get(id) === post) this.#posts.delete(id);
    if (this.#options.id !== undefined || this.#isEnded) return;
    for (const requestId of post.unanswered) {
      const cancelled = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } } as const;
      // A server that is gone does not need it.
      this.#channel.send(wireMessage(cancelled)).catch(() => undefined);
    }
  }

  #forward(wire: WireMessage, post: Post | undefined): Promise<void> {
    const { connection } = this.#options;
    return connection.fromAgent(wire, (decision) => {
      switch (decision.kind) {
        case "pass":
          if (post?.takesEvents === true)
            this.#flush((waiting) => this.#deliver(waiting, (given) => post.send(given)));
          return this.#channel.send(decision.wire);
        case "answer":
          return this.#answer(decision.wire);
        case "disconnect":
          return connection.cut();
        case "drop":
          return undefined;
      }
    });
  }

  #undelivered(response: ServerResponse, error: unknown): void {
    if (error instanceof McpvalsError) this.#options.onLost(error);
    else if (!this.#isEnded) throw error;
    const message = error instanceof Error ? error.message : String(error);
    answerError(response, 502, { code: errorCodes.server, message });
  }

  #receive(wire: WireMessage): void {
    const { connection } = this.#options;
    const passing = connection.fromServer(wire, (decision) => this.#give(decision));
    // A filter that throws is a bug; the agent must not wait forever.
    passing.catch(() => connection.cut());
  }

  #give(decision: FilterDecision): void {
    if (decision.kind === "disconnect") this.#options.connection.cut();
    else if (decision.kind === "drop") return;
    else if (answeredId(decision.wire.message) === undefined) this.#route(decision.wire);
    else this.#answer(decision.wire);
  }

  #answer(wire: WireMessage): void {
    const id = answeredId(wire.message);
    const post = id === undefined ? undefined : this.#posts.get(id);
    // The agent has left, or the server answers twice.
    if (id === undefined || post === undefined) return;
    this.#posts.delete(id);
    this.#deliver(wire, (given) => post.answer(id, given));
  }

  /** Finds the response on which a request or notification of the server's goes out. */
  #route(wire: WireMessage): void {
    const posts = [...new Set(this.#posts.values())].filter(({ takesEvents }) => takesEvents);
    const stream = this.#stream?.isOpen === true ? this.#stream : undefined;
    const target = belongsTo(wire, { posts: this.#posts, open: posts, stream });
    if (target === undefined) this.#keepWaiting(wire);
    else this.#deliver(wire, (given) => target.send(given));
  }

  #keepWaiting(wire: WireMessage): void {
    this.#waitingLength += wire.text.length;
    if (this.#waitingLength <= mostWaiting) this.#waiting.push(wire);
    else this.#serverEnded(tooMuchWaiting(this.#options.host.name));
  }

  #flush(give: (wire: WireMessage) => void): void {
    this.#waitingLength = 0;
    for (const wire of this.#waiting.splice(0)) give(wire);
  }

  #deliver(wire: WireMessage, give: (wire: WireMessage) => void): void {
    this.#options.connection.recordDelivered(wire);
    give(wire);
  }

  #serverEnded(reason: McpvalsError | undefined): void {
    if (reason !== undefined) this.#options.onLost(reason);
    const message = reason?.message ?? `server "${this.#options.host.name}" has ended the exchange`;
    for (const post of new Set(this.#posts.values())) post.fail(502, message);
    this.#posts.clear();
    this.#stream?.end();
    this.end();
  }
}

/** Characters of messages that may wait for the client to open a response that they can go out on. */
const mostWaiting = 32 * 1024 * 1024;

function tooMuchWaiting(server: string): McpvalsError {
  return new McpvalsError(
    "server/protocol-error",
    `server "${server}" sent more than ${mostWaiting / 1024 / 1024} MiB that no client received`,
    { hint: "Check whether it sends notifications in a loop." },
  );
}

export interface Targets {
  /** Open requests by id. */
  readonly posts: ReadonlyMap<string | number, Post>;
  /** The responses that take events, oldest first. */
  readonly open: readonly Post[];
  /** The stream for what belongs to no request. */
  readonly stream: EventStream | undefined;
}

/**
 * Finds where a request or notification of the server's goes out: on the response of the request that it names, else on the
 * response of the latest request, else on the stream; what tells of changes goes to the stream first. undefined: nowhere
 * yet.
 */
function belongsTo(wire: WireMessage, { posts, open, stream }: Targets): Post | EventStream | undefined {
  const named = namedBy(wire, { posts, open });
  if (named?.takesEvents === true) return named;
  const latest = open.at(-1);
  return isAboutRequests(wire) ? (latest ?? stream) : (stream ?? latest);
}

/** Requests, log messages and progress belong to a pending request. */
function isAboutRequests({ message }: WireMessage): boolean {
  if (!("method" in message)) return false;
  return "id" in message || ["notifications/message", "notifications/progress"].includes(message.method);
}

/** A subscription is named by its request's id, progress by the token of its request. */
function namedBy(wire: WireMessage, { posts, open }: Pick<Targets, "posts" | "open">): Post | undefined {
  const subscription = idAt(wire.message, ["params", "_meta", "io.modelcontextprotocol/subscriptionId"]);
  if (subscription !== undefined) return posts.get(subscription);
  const token = idAt(wire.message, ["params", "progressToken"]);
  return token !== undefined ? open.find(({ tokens }) => tokens.has(token)) : undefined;
}

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
    answerError(this.#exchange.response, status, { code: errorCodes.server, message });
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
