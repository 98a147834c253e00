import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { valueAt } from "../../base/json.ts";
import type { Channel, ChannelListener } from "../connections/host.ts";
import {
  errorAnswer,
  idAt,
  kindOf,
  type MessageId,
  methodOf,
  replaceInJson,
  type WireMessage,
  wireMessage,
  withIdAt,
} from "../messages/json-rpc.ts";
import { errorCodes } from "../../model/error-codes.ts";

export interface ClientOptions {
  /**
   * The client gets messages for all clients only while it waits for an answer or is alone, so that what an agent gets is not
   * recorded twice. Default: false.
   */
  readonly yields?: boolean;
}

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

/** A progress token. */
interface Token {
  readonly client: Client;
  /** As its client knows it. */
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
  readonly #tokens = new Map<MessageId, Token>();
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
      send: async (wire) => {
        if (!client.open && !this.#ended) throw new Error("the client has closed its channel");
        const text = this.#outgoing(client, wire);
        if (text !== undefined) await this.#send(text);
      },
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
    if (id !== own) client.replaced.set(own, id);
    const sent = id === own ? text : replaceInJson(text, ["id"], JSON.stringify(id));
    const ownToken = idAt(message, tokenOfRequest);
    if (ownToken === undefined) return sent;
    const owner = this.#tokens.get(ownToken);
    const isTaken = owner !== undefined && owner.client !== client && this.#pending.has(owner.request);
    const token = isTaken ? this.#unused() : ownToken;
    this.#tokens.set(token, { client, own: ownToken, request: id });
    return isTaken ? replaceInJson(sent, tokenOfRequest, JSON.stringify(token)) : sent;
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
    const answer = withIdAt(wire, ["id"], own);
    if (pending.method !== "initialize") return this.#deliver(client, answer);
    if ("result" in answer.message) this.#initializeResult ??= answer;
    // A program has one handshake: where it refuses the second `initialize`, the client gets the first answer.
    const first = refusesAgain(answer.message) ? this.#initializeResult : undefined;
    client.replayedHandshake ||= first !== undefined;
    this.#deliver(client, first === undefined ? answer : withIdAt(first, ["id"], own));
  }

  #serverRequest(wire: WireMessage): void {
    const id = idAt(wire.message, ["id"]);
    const client = this.#nearest();
    if (id === undefined) return;
    if (client === undefined) return this.#sendQuietly(clientLeft(id));
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
        this.#deliver(pending.client, withIdAt(wire, subscription, pending.id));
      }
    }
  }

  #progress(wire: WireMessage): void {
    const token = idAt(wire.message, tokenOfProgress);
    const owner = token === undefined ? undefined : this.#tokens.get(token);
    if (owner === undefined) return this.#deliver(this.#nearest(), wire);
    this.#deliver(owner.client, withIdAt(wire, tokenOfProgress, owner.own));
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
        this.#sendQuietly(
          wireMessage({
            jsonrpc: "2.0",
            method: "notifications/cancelled",
            params: { requestId: id, reason: "the client has left" },
          }),
        );
    }
    for (const [token, owner] of this.#tokens) if (owner.client === client) this.#tokens.delete(token);
    for (const [id, asked] of this.#serverRequests) {
      if (asked !== client) continue;
      this.#serverRequests.delete(id);
      this.#sendQuietly(clientLeft(id));
    }
    return Promise.resolve();
  }

  /** The server may be gone already. */
  #sendQuietly({ text }: WireMessage): void {
    this.#send(text).catch(() => undefined);
  }

  #unused(): string {
    let id: string;
    do id = `mcpvals:${(this.#count += 1)}`;
    while (this.#pending.has(id) || this.#tokens.has(id));
    return id;
  }
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

function clientLeft(id: MessageId): WireMessage {
  return errorAnswer(id, errorCodes.internal, "the client has left");
}
