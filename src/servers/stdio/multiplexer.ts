import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { createScanner } from "jsonc-parser";
import {
  jsonToken,
  errorCodes,
  malformationOf,
  markMalformed,
  type WireMessage,
  wireMessage,
  idAt,
  kindOf,
  type MessageId,
  methodOf,
  valueAt,
} from "../messages/json-rpc.ts";
import type { Channel, ChannelListener } from "../connections/host.ts";

export interface ClientOptions {
  /**
   * The client gets messages for all clients only while it waits for an answer or is alone, so that what an agent gets is not
   * recorded twice. Default: false.
   */
  readonly yields?: boolean;
}

/** One of the clients. */
interface Client {
  readonly listener: ChannelListener;
  readonly yields: boolean;
  open: boolean;
  /** Its ids that were replaced, with the ids that the server knows. */
  readonly replaced: Map<MessageId, MessageId>;
  /** Counts up with each client that begins; 0: it has sent nothing. */
  since: number;
  /** It got the answer to another client's `initialize`: the server must not get its `initialized` either. */
  replayedHandshake: boolean;
}

/** A request that the server has not answered. */
interface Pending {
  readonly client: Client;
  /** As its client knows it. */
  readonly id: MessageId;
  readonly method: string;
  cancelled: boolean;
}

interface Owned {
  readonly client: Client;
  readonly own: MessageId;
  /** The request that the token came with, as the server knows it. */
  readonly request: MessageId;
}

const requestId = ["params", "requestId"];
const tokenOfRequest = ["params", "_meta", "progressToken"];
const tokenOfProgress = ["params", "progressToken"];
const subscription = ["params", "_meta", "io.modelcontextprotocol/subscriptionId"];

/**
 * Lets many clients share the pipes of one program. Messages are passed on unchanged, but for ids and progress tokens that two
 * clients use at the same time: those of the second client are replaced on the way, and restored in what comes back.
 */
export class Multiplexer {
  readonly #send: (text: string) => Promise<void>;
  readonly #clients = new Set<Client>();
  /** Requests by the id that the server knows, oldest first. */
  readonly #pending = new Map<MessageId, Pending>();
  /** Progress tokens, as the server knows them. */
  readonly #tokens = new Map<MessageId, Owned>();
  /** The client that got a request of the server, by its id. */
  readonly #serverRequests = new Map<MessageId, Client>();
  #initializeResult: WireMessage | undefined;
  #count = 0;
  #ended = false;

  /** `send` writes one message to the server. */
  constructor(send: (text: string) => Promise<void>) {
    this.#send = send;
  }

  open(listener: ChannelListener, { yields = false }: ClientOptions = {}): Channel {
    const client: Client = {
      listener,
      yields,
      open: true,
      replaced: new Map(),
      since: 0,
      replayedHandshake: false,
    };
    this.#clients.add(client);
    return {
      send: (wire) => this.#fromClient(client, wire),
      close: () => this.#leave(client),
    };
  }

  /** Routes a message of the server. */
  receive(wire: WireMessage): void {
    switch (kindOf(wire.message)) {
      case "answer":
        return this.#answer(wire);
      case "request":
        return this.#serverRequest(wire);
      case "notification":
        return this.#notification(wire);
    }
  }

  /** The server has ended. What clients send still goes to `send`, which rejects with the reason. */
  close(): void {
    this.#ended = true;
    const clients = [...this.#clients];
    this.#clients.clear();
    for (const client of clients) {
      client.open = false;
      client.listener.onClosed();
    }
  }

  #fromClient(client: Client, wire: WireMessage): Promise<void> {
    if (!client.open && !this.#ended) return Promise.reject(new Error("the client has closed its channel"));
    const text = this.#outgoing(client, wire);
    return text === undefined ? Promise.resolve() : this.#send(text);
  }

  /** The text that the server gets; undefined: none. */
  #outgoing(client: Client, wire: WireMessage): string | undefined {
    const { message, text } = wire;
    const method = methodOf(message);
    if (client.since === 0 || method === "initialize") client.since = this.#count += 1;
    const id = idAt(message, ["id"]);
    if (method === undefined) {
      if (id !== undefined) this.#serverRequests.delete(id);
      return text;
    }
    if (id !== undefined) return this.#request(client, wire, id);
    if (method === "notifications/initialized" && client.replayedHandshake) return undefined;
    return method === "notifications/cancelled" ? this.#cancel(client, wire) : text;
  }

  #request(client: Client, { message, text }: WireMessage, own: MessageId): string {
    const other = this.#pending.get(own);
    const id = other !== undefined && other.client !== client ? this.#unused() : own;
    // The newest request comes last, also when its client has used the id before.
    this.#pending.delete(id);
    this.#pending.set(id, { client, id: own, method: methodOf(message) ?? "", cancelled: false });
    if (id === own) return this.#claimToken(client, { message, text }, id);
    client.replaced.set(own, id);
    return this.#claimToken(client, { message, text: replaceInJson(text, ["id"], JSON.stringify(id)) }, id);
  }

  #claimToken(client: Client, { message, text }: WireMessage, request: MessageId): string {
    const own = idAt(message, tokenOfRequest);
    if (own === undefined) return text;
    const owner = this.#tokens.get(own);
    const taken = owner !== undefined && owner.client !== client && this.#pending.has(owner.request);
    const token = taken ? this.#unused() : own;
    this.#tokens.set(token, { client, own, request });
    return taken ? replaceInJson(text, tokenOfRequest, JSON.stringify(token)) : text;
  }

  #cancel(client: Client, { message, text }: WireMessage): string {
    const own = idAt(message, requestId);
    if (own === undefined) return text;
    const id = client.replaced.get(own) ?? own;
    const pending = this.#pending.get(id);
    if (pending?.client !== client || pending.id !== own) return text;
    pending.cancelled = true;
    return id === own ? text : replaceInJson(text, requestId, JSON.stringify(id));
  }

  #answer(wire: WireMessage): void {
    const id = idAt(wire.message, ["id"]);
    const pending = id === undefined ? undefined : this.#pending.get(id);
    if (id === undefined || pending === undefined) return this.#deliver(this.#nearest(), wire);
    this.#pending.delete(id);
    const { client, id: own } = pending;
    if (client.replaced.get(own) === id) client.replaced.delete(own);
    const answer = withId(wire, own);
    this.#deliver(
      client,
      pending.method === "initialize" ? this.#initializeAnswer(client, answer, own) : answer,
    );
  }

  /** A program has one handshake: where it refuses the second `initialize`, the client gets the first answer. */
  #initializeAnswer(client: Client, answer: WireMessage, id: MessageId): WireMessage {
    if ("result" in answer.message) this.#initializeResult ??= answer;
    else if (this.#initializeResult !== undefined && refusesAgain(answer.message)) {
      client.replayedHandshake = true;
      return withId(this.#initializeResult, id);
    }
    return answer;
  }

  /** Gives a request of the server to one of the clients. */
  #serverRequest(wire: WireMessage): void {
    const id = idAt(wire.message, ["id"]);
    const client = this.#nearest();
    if (id === undefined) return;
    if (client === undefined) return this.#sendQuietly(clientLeftAnswer(id));
    this.#serverRequests.set(id, client);
    this.#deliver(client, wire);
  }

  #notification(wire: WireMessage): void {
    const { message } = wire;
    switch (methodOf(message)) {
      case "notifications/progress":
        return this.#progress(wire);
      case "notifications/cancelled": {
        const client = this.#serverRequests.get(idAt(message, requestId) ?? "");
        return this.#deliver(client ?? this.#nearest(), wire);
      }
      default: {
        const id = idAt(message, subscription);
        const pending = id === undefined ? undefined : this.#pending.get(id);
        if (pending === undefined) return this.#broadcast(wire);
        this.#deliver(pending.client, pending.id === id ? wire : renamed(wire, subscription, pending.id));
      }
    }
  }

  #progress(wire: WireMessage): void {
    const token = idAt(wire.message, tokenOfProgress);
    const owner = token === undefined ? undefined : this.#tokens.get(token);
    if (owner === undefined) return this.#deliver(this.#nearest(), wire);
    this.#deliver(owner.client, owner.own === token ? wire : renamed(wire, tokenOfProgress, owner.own));
  }

  #broadcast(wire: WireMessage): void {
    const all = [...this.#clients];
    const begun = all.filter(({ since }) => since > 0);
    const present = begun.length === 0 ? all : begun;
    const waiting = new Set([...this.#pending.values()].map(({ client }) => client));
    const active = present.filter((client) => !client.yields || waiting.has(client));
    for (const client of active.length === 0 ? present : active) this.#deliver(client, wire);
  }

  /** The client that is most likely meant: the last that waits for an answer, else the last that began. */
  #nearest(): Client | undefined {
    const asker = [...this.#pending.values()].findLast(({ client, cancelled }) => client.open && !cancelled);
    return asker?.client ?? [...this.#clients].toSorted((a, b) => a.since - b.since).at(-1);
  }

  #deliver(client: Client | undefined, wire: WireMessage): void {
    if (client?.open === true) client.listener.onMessage(wire);
  }

  #leave(client: Client): Promise<void> {
    if (!client.open) return Promise.resolve();
    client.open = false;
    this.#clients.delete(client);
    for (const [id, pending] of this.#pending) {
      if (pending.client === client && !pending.cancelled && pending.method !== "initialize")
        this.#sendQuietly(cancellation(id));
    }
    for (const [token, owner] of this.#tokens) if (owner.client === client) this.#tokens.delete(token);
    for (const [id, asked] of this.#serverRequests) {
      if (asked !== client) continue;
      this.#serverRequests.delete(id);
      this.#sendQuietly(clientLeftAnswer(id));
    }
    return Promise.resolve();
  }

  /** The server may be gone already. */
  #sendQuietly(message: JSONRPCMessage): void {
    this.#send(wireMessage(message).text).catch(() => undefined);
  }

  #unused(): string {
    let id: string;
    do id = `mcpvals:${(this.#count += 1)}`;
    while (this.#pending.has(id) || this.#tokens.has(id));
    return id;
  }
}

/** The same answer with another id, and every other byte unchanged. */
export function withId(answer: WireMessage, id: MessageId): WireMessage {
  return idAt(answer.message, ["id"]) === id ? answer : renamed(answer, ["id"], id);
}

/** The same message with another id at a path, and every other byte unchanged. */
function renamed(
  { message: before, text }: WireMessage,
  path: readonly string[],
  id: MessageId,
): WireMessage {
  const changed = replaceInJson(text, path, JSON.stringify(id));
  const message = JSON.parse(changed) as JSONRPCMessage;
  const problem = malformationOf(before);
  if (problem !== undefined) markMalformed(message, problem);
  return { message, text: changed };
}

/** Whether an error says only that the server was initialized before. */
function refusesAgain(message: JSONRPCMessage): boolean {
  const text = valueAt(message, ["error", "message"]);
  const again = /already|again|twice|once|duplicate|initiali[sz]ed/i;
  return (
    valueAt(message, ["error", "code"]) === errorCodes.invalidRequest ||
    (typeof text === "string" && again.test(text))
  );
}

function cancellation(id: MessageId): JSONRPCMessage {
  return {
    jsonrpc: "2.0",
    method: "notifications/cancelled",
    params: { requestId: id, reason: "the client has left" },
  };
}

function clientLeftAnswer(id: MessageId): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: errorCodes.internal, message: "the client has left" } };
}

/**
 * Replaces the JSON value at a path of keys, and leaves every other character of the text unchanged; gives the same text when
 * there is no such value. Of repeated keys the last one counts, as for `JSON.parse`. The text has to be valid JSON.
 */
export function replaceInJson(text: string, path: readonly string[], json: string): string {
  const scanner = createScanner(text, true);
  let found: { readonly start: number; readonly end: number } | undefined;
  /** Reads a value; `depth` keys of the path lead to it, undefined: it is elsewhere. */
  const read = (token: number, depth: number | undefined): void => {
    const start = scanner.getTokenOffset();
    if (token === jsonToken.openBrace || token === jsonToken.openBracket) {
      const close = token === jsonToken.openBrace ? jsonToken.closeBrace : jsonToken.closeBracket;
      for (
        let next: number = scanner.scan();
        next !== close && next !== jsonToken.endOfText;
        next = scanner.scan()
      ) {
        if (next === jsonToken.comma) continue;
        if (token === jsonToken.openBracket) read(next, undefined);
        else {
          const isOnPath = depth !== undefined && scanner.getTokenValue() === path[depth];
          if (isOnPath) found = undefined;
          scanner.scan(); // the colon
          read(scanner.scan(), isOnPath ? depth + 1 : undefined);
        }
      }
    }
    if (depth === path.length) found = { start, end: scanner.getTokenOffset() + scanner.getTokenLength() };
  };
  read(scanner.scan(), 0);
  return found === undefined ? text : text.slice(0, found.start) + json + text.slice(found.end);
}
