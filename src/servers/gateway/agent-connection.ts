import type { McpvalsError } from "../../core/errors/error.ts";
import type { Emit } from "../../core/trace/events.ts";
import {
  type Deliver,
  type Filter,
  FilterChain,
  type FilterContext,
  type FilterDecision,
} from "../filters/filter-chain.ts";
import {
  errorAnswer,
  errorCodes,
  malformationOf,
  type MessageId,
  messageJson,
  requestOf,
  type WireMessage,
} from "../messages/json-rpc.ts";
import { deepestMessage, isTooDeep, mostUnasked, ReceiveLimits } from "../messages/message-limits.ts";
import { ambiguityOf } from "./request-checks.ts";

export interface AgentConnectionOptions {
  readonly server: string;
  /** Number of the connection in the trial and server. */
  readonly client: string;
  readonly via: "http" | "bridge";
  readonly emit: Emit;
  readonly filters: (context: FilterContext) => readonly Filter[];
  /** Called when the server broke the protocol so badly that the connection cannot go on. */
  readonly onLost: (error: McpvalsError) => void;
}

/** One connection of an agent: filters what it sends and gets, and records it as the agent saw it. */
export class AgentConnection {
  /** Whether filters decide by what messages say, so that the server must not read them in another way. */
  readonly isFiltered: boolean;
  readonly #options: AgentConnectionOptions;
  readonly #filters: FilterChain;
  readonly #limits: ReceiveLimits;
  readonly #ended = new AbortController();
  readonly #closers = new Set<() => void>();
  #sent = 0;

  constructor(options: AgentConnectionOptions) {
    const { server, client, via } = options;
    this.#options = options;
    this.#limits = new ReceiveLimits(server);
    const emit: Emit = (event) => this.#emit(event);
    const filters = options.filters({ server, client, emit });
    this.isFiltered = filters.length > 0;
    this.#filters = new FilterChain(filters);
    emit({ type: "gateway.connected", server, client, via });
  }

  /** Aborts when the connection has ended. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Records and filters a message of the agent. Settles as `deliver` does, which is not called after the end. */
  fromAgent(wire: WireMessage, deliver: Deliver): Promise<void> {
    this.#sent += 1;
    // An agent in a loop must not fill the memory.
    if (this.#sent > mostUnasked) return this.#deliver({ kind: "disconnect" }, deliver);
    this.recordRefused(wire);
    if (isTooDeep(wire.message))
      return this.#deliver(refusal(wire, `nested more than ${deepestMessage} levels deep`), deliver);
    const ambiguity = this.isFiltered ? ambiguityOf(wire) : undefined;
    if (ambiguity !== undefined)
      return this.#deliver(refusal(wire, `that a server may read in another way: ${ambiguity}`), deliver);
    return this.#filters.fromClient(wire, (decision) => this.#deliver(decision, deliver));
  }

  /** Records a message of the agent that is refused before it is filtered. */
  recordRefused(wire: WireMessage): void {
    this.#record("client-to-server", isTooDeep(wire.message) ? withoutDepth(wire) : wire);
  }

  /** Filters a message of the server; settles as `deliver` does. */
  fromServer(wire: WireMessage, deliver: Deliver): Promise<void> {
    const problem = this.#limits.problemOf(wire.message);
    if (problem === undefined)
      return this.#filters.fromServer(wire, (decision) => this.#deliver(decision, deliver));
    this.#options.onLost(problem);
    return Promise.resolve(deliver({ kind: "disconnect" }));
  }

  /** Records what the agent is given now. */
  recordDelivered(wire: WireMessage): void {
    this.#record("server-to-client", wire);
  }

  /** Records the status that a request over HTTP was answered with. */
  recordResponse(method: string, status: number, requestIds: readonly MessageId[]): void {
    const { server, client } = this.#options;
    this.#emit({ type: "http.response", server, client, method, status, requestIds });
  }

  /** Calls `close` when the connection is cut; the result removes it. */
  onCut(close: () => void): () => void {
    if (this.ended.aborted) close();
    else this.#closers.add(close);
    return () => this.#closers.delete(close);
  }

  /** Cuts whatever is open now; an agent over HTTP may come back. */
  cut(): void {
    for (const close of this.#closers) close();
  }

  /** Ends the connection; nothing of it is recorded afterwards. */
  end(): void {
    if (this.ended.aborted) return;
    const { server, client } = this.#options;
    this.#emit({ type: "gateway.disconnected", server, client });
    this.#ended.abort();
    this.#filters.close();
    this.cut();
  }

  async #deliver(decision: FilterDecision, deliver: Deliver): Promise<void> {
    if (!this.ended.aborted) await deliver(decision);
  }

  #emit(event: Parameters<Emit>[0]): number {
    return this.ended.aborted ? 0 : this.#options.emit(event);
  }

  #record(direction: "client-to-server" | "server-to-client", wire: WireMessage): void {
    const { server, client } = this.#options;
    const message = messageJson(wire.message);
    const raw = wire.text === JSON.stringify(message) ? {} : { raw: wire.text };
    const problem = direction === "server-to-client" ? malformationOf(wire.message) : undefined;
    const malformed = problem === undefined ? {} : { malformed: problem };
    this.#emit({ type: "mcp.message", server, client, direction, message, ...raw, ...malformed });
  }
}

/** A message for the record, without its deeper levels. */
function withoutDepth({ message }: WireMessage): WireMessage {
  const cut = JSON.stringify(cutAt(message, shownLevels));
  return { message: JSON.parse(cut) as WireMessage["message"], text: cut };
}

/** Enough for what tells one message from another, such as the name of a tool. */
const shownLevels = 2;

function cutAt(value: unknown, levels: number): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (levels === 0 || Array.isArray(value)) return "[nested too deeply to record]";
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cutAt(item, levels - 1)]));
}

/** Answers a request with an error, and drops any other message. */
function refusal({ message }: WireMessage, why: string): FilterDecision {
  const id = requestOf(message)?.id;
  if (id === undefined) return { kind: "drop" };
  const text = `mcpvals passes on no message ${why}`;
  return { kind: "answer", wire: errorAnswer(id, errorCodes.invalidRequest, text) };
}

/** A client without a session. */
export interface SessionlessClient {
  /** Whether it waits for the answer to a request with that id. */
  isWaitingFor(id: MessageId): boolean;
}

/**
 * The clients of an endpoint that name no session, as 2026-07-28 has none. They are treated as one client until two requests
 * with the same id are pending at the same time, which shows that there are two.
 */
export class SessionlessClients<T extends SessionlessClient> {
  readonly #create: () => T;
  readonly #clients = new Set<T>();

  constructor(create: () => T) {
    this.#create = create;
  }

  /** Adds a client that turned out to have no session. */
  add(client: T): void {
    this.#clients.add(client);
  }

  /** The client that requests with these ids belong to. */
  pick(ids: readonly MessageId[]): T {
    const free = [...this.#clients].find((client) => !ids.some((id) => client.isWaitingFor(id)));
    const picked = free ?? this.#create();
    this.#clients.add(picked);
    return picked;
  }

  remove(client: T): void {
    this.#clients.delete(client);
  }
}
