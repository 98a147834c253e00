import type { McpvalsError } from "../../core/errors/error.ts";
import type { Emit } from "../../core/trace/events.ts";
import {
  type Filter,
  type FilterContext,
  type FilterRun,
  type HandOver,
  runFilters,
} from "../filters/filter-chain.ts";
import {
  malformationOf,
  messageJson,
  requestOf,
  type WireMessage,
  wireMessage,
} from "../messages/json-rpc.ts";
import { deepestMessage, isTooDeep, mostUnasked, ReceiveLimits } from "../messages/message-limits.ts";
import { ambiguityOf } from "./request-checks.ts";

export interface AgentLinkOptions {
  readonly server: string;
  /** Number of the connection in the trial and server. */
  readonly client: string;
  readonly via: "http" | "bridge";
  readonly emit: Emit;
  readonly filters: (context: FilterContext) => readonly Filter[];
  /** The server did what no exchange with it survives. */
  readonly onLost: (error: McpvalsError) => void;
}

/** One connection of an agent's: what it sends and gets passes through the filters, and is on record as the agent saw it. */
export class AgentLink {
  readonly #options: AgentLinkOptions;
  readonly #filters: FilterRun;
  /** Whether filters decide by what messages say, so that nobody may read them in another way. */
  readonly isFiltered: boolean;
  readonly #ended = new AbortController();
  readonly #wires = new Set<() => void>();
  readonly #limits: ReceiveLimits;
  #asked = 0;

  constructor(options: AgentLinkOptions) {
    this.#options = options;
    this.#limits = new ReceiveLimits(options.server);
    const { server, client, via, filters } = options;
    const emit: Emit = (event) => this.#emit(event);
    const own = filters({ server, client, emit });
    this.isFiltered = own.length > 0;
    this.#filters = runFilters(own);
    emit({ type: "gateway.connected", server, client, via });
  }

  /** Aborts when the connection has ended. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /**
   * Records a message of the agent's, and has decided what becomes of it. Settles as `handOver` does, which is not
   * called after the end.
   */
  fromAgent(wire: WireMessage, handOver: HandOver): Promise<void> {
    this.#asked += 1;
    // An agent in a loop must not fill the memory.
    if (this.#asked > mostUnasked) return Promise.resolve(handOver({ kind: "disconnect" }));
    if (isTooDeep(wire.message)) {
      this.#record("client-to-server", withoutDepth(wire));
      const depth = `mcpvals passes on no message nested more than ${deepestMessage} levels deep`;
      return Promise.resolve(handOver(refusal(wire, depth)));
    }
    this.#record("client-to-server", wire);
    const ambiguity = this.isFiltered ? ambiguityOf(wire) : undefined;
    if (ambiguity !== undefined) {
      const text = `mcpvals passes on no message that a server may read in another way: ${ambiguity}`;
      return Promise.resolve(this.ended.aborted ? undefined : handOver(refusal(wire, text)));
    }
    return this.#filters.fromClient(wire, (passage) => (this.ended.aborted ? undefined : handOver(passage)));
  }

  /** Records a message of the agent's that is refused before anything is decided of it. */
  refuses(wire: WireMessage): void {
    this.#record("client-to-server", isTooDeep(wire.message) ? withoutDepth(wire) : wire);
  }

  /** Has decided what becomes of a message of the server's; settles as `handOver` does. */
  fromServer(wire: WireMessage, handOver: HandOver): Promise<void> {
    const problem = this.#limits.problemOf(wire.message);
    if (problem !== undefined) {
      this.#options.onLost(problem);
      return Promise.resolve(handOver({ kind: "disconnect" }));
    }
    return this.#filters.fromServer(wire, (passage) => (this.ended.aborted ? undefined : handOver(passage)));
  }

  /** Records what the agent is given now. */
  delivers(wire: WireMessage): void {
    this.#record("server-to-client", wire);
  }

  /** Records how a request over HTTP was answered. */
  responds(method: string, status: number, requestIds: readonly (string | number)[]): void {
    const { server, client } = this.#options;
    this.#emit({ type: "http.response", server, client, method, status, requestIds });
  }

  /** Adds something to be cut with the connection; the result takes it back. */
  holds(cut: () => void): () => void {
    if (this.ended.aborted) cut();
    else this.#wires.add(cut);
    return () => this.#wires.delete(cut);
  }

  /** Cuts whatever is open now; an agent over HTTP may come back. */
  cut(): void {
    for (const cut of this.#wires) cut();
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

/** A message for the record, with what is too deep in it left out. */
function withoutDepth({ message }: WireMessage): WireMessage {
  const cut = JSON.stringify(cutAt(message, deepestShown));
  return { message: JSON.parse(cut) as WireMessage["message"], text: cut };
}

/** Deep enough for what tells one message from another, such as the name of a tool. */
const deepestShown = 2;

function cutAt(value: unknown, levels: number): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (levels === 0 || Array.isArray(value)) return "[nested too deeply to record]";
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cutAt(item, levels - 1)]));
}

/** A message that cannot be handled is answered, where it wants an answer. */
function refusal({ message }: WireMessage, text: string): Parameters<HandOver>[0] {
  const request = requestOf(message);
  if (request === undefined) return { kind: "drop" };
  return {
    kind: "answer",
    wire: wireMessage({ jsonrpc: "2.0", id: request.id, error: { code: -32600, message: text } }),
  };
}

/** A client without a session. */
export interface Lane {
  /** Whether a request with that id is on its way. */
  isWaitingFor(id: string | number): boolean;
}

/**
 * The clients of an endpoint that name no session, as 2026-07-28 has none. They are one client, until two requests with the
 * same id are on their way at the same time, which shows that there are two.
 */
export class Lanes<T extends Lane> {
  readonly #create: () => T;
  readonly #lanes: T[] = [];

  constructor(create: () => T) {
    this.#create = create;
  }

  /** Adds a client that turned out to have no session. */
  add(lane: T): void {
    this.#lanes.push(lane);
  }

  /** The client that requests with these ids belong to. */
  pick(ids: readonly (string | number)[]): T {
    const free = this.#lanes.find((lane) => !ids.some((id) => lane.isWaitingFor(id)));
    if (free !== undefined) return free;
    const lane = this.#create();
    this.#lanes.push(lane);
    return lane;
  }

  remove(lane: T): void {
    const index = this.#lanes.indexOf(lane);
    if (index !== -1) this.#lanes.splice(index, 1);
  }
}
