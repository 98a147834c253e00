import { messageOf } from "../core/errors/error.ts";
import {
  asObject,
  isJsonObject,
  type Json,
  type JsonObject,
  withoutUndefined,
} from "../core/formats/json.ts";
import type { Emit } from "../core/trace/events.ts";
import { abortAfter } from "../process/deadline.ts";
import type { Channel, ServerHost } from "../servers/connections/host.ts";
import {
  answeredId,
  errorCodes,
  kindOf,
  malformationOf,
  messageJson,
  modernVersion,
  wireMessage,
  type WireMessage,
} from "../servers/messages/json-rpc.ts";

/** What came of a request. */
export type Answer =
  | { readonly kind: "result"; readonly result: JsonObject }
  | { readonly kind: "error"; readonly error: JsonObject }
  /** Nothing came in time. */
  | { readonly kind: "none" }
  /** The connection ended first. */
  | { readonly kind: "lost" };

export interface RawClientOptions {
  readonly emit: Emit;
  /** Gives ids that no other request of the trial has. */
  readonly nextId: () => number;
  /** How long a request waits for its answer, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly version: string;
}

/** The version that the handshake asks for first: the newest one that begins with `initialize`. */
export const legacyVersion = "2025-11-25";

/**
 * A client that sends whatever a probe wants, also what is against the protocol, and that judges nothing. Everything is recorded as
 * `mcp.message`. Requests of the server get the answer that the method is unknown.
 */
export class RawClient {
  readonly #host: ServerHost;
  readonly #options: RawClientOptions;
  readonly #channel: Channel;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  readonly #closed = Promise.withResolvers<void>();
  /** What every request of the modern era has in its `_meta`. */
  #meta: JsonObject | undefined;

  constructor(host: ServerHost, options: RawClientOptions) {
    this.#host = host;
    this.#options = options;
    this.#channel = host.open({
      onMessage: (wire) => this.#receive(wire),
      onClosed: () => this.#lose(),
      onResponse: (response) => options.emit({ type: "http.response", server: host.name, ...response }),
    });
    host.lost.addEventListener("abort", () => this.#lose(), { once: true });
    if (host.lost.aborted) this.#lose();
  }

  /** Settles when the server has ended the connection. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /**
   * Begins a session: `initialize` with a version, or where the server wants the modern era `server/discover`. Gives the answer that
   * decides; after a result the client is ready. `exactly`: the modern era is not tried where another version is refused.
   */
  async connect(version: string = legacyVersion, { exactly = false } = {}): Promise<Answer> {
    const clientInfo = { name: "mcpvals", version: this.#options.version };
    if (version === modernVersion) {
      this.#meta = {
        "io.modelcontextprotocol/protocolVersion": modernVersion,
        "io.modelcontextprotocol/clientInfo": clientInfo,
        "io.modelcontextprotocol/clientCapabilities": {},
      };
      return this.request("server/discover");
    }
    const params = { protocolVersion: version, capabilities: {}, clientInfo };
    const answer = await this.request("initialize", params);
    if (!exactly && answer.kind === "error" && wantsModern(answer.error)) return this.connect(modernVersion);
    if (answer.kind === "result") await this.notify("notifications/initialized");
    return answer;
  }

  /** Sends a request and waits for its answer. Never throws but for the signal's reason. */
  async request(method: string, params?: JsonObject, timeoutMs?: number): Promise<Answer> {
    return (await this.start(method, params, timeoutMs)).answer;
  }

  /** Sends a request; its answer comes later. */
  async start(
    method: string,
    params?: JsonObject,
    timeoutMs: number = this.#options.timeoutMs,
  ): Promise<{ readonly id: number; readonly answer: Promise<Answer> }> {
    const id = this.#options.nextId();
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const deadline = abortAfter(timeoutMs, () => undefined, this.#options.signal);
    const give = (answer: Answer): void => {
      deadline[Symbol.dispose]();
      this.#waiting.delete(id);
      resolve(answer);
    };
    this.#waiting.set(id, give);
    deadline.signal.addEventListener("abort", () => give({ kind: "none" }), { once: true });
    const message = { jsonrpc: "2.0", id, method, ...this.#withMeta(params) } as const;
    if (!(await this.send(wireMessage(message)))) give({ kind: "lost" });
    return { id, answer: promise };
  }

  async notify(method: string, params?: JsonObject): Promise<void> {
    await this.send(wireMessage({ jsonrpc: "2.0", method, ...this.#withMeta(params) }));
  }

  /** Sends a text, which may be no message at all. Returns whether it could be sent. */
  async send(wire: WireMessage): Promise<boolean> {
    this.#options.signal.throwIfAborted();
    this.#record("client-to-server", wire);
    try {
      await this.#channel.send(wire);
      return true;
    } catch {
      // The server is gone; what happened to it is on record.
      return false;
    }
  }

  /** Ends the connection. The server may go on. */
  async close(): Promise<void> {
    await this.#channel.close();
    this.#lose();
  }

  #withMeta(params: JsonObject | undefined): { readonly params?: JsonObject } {
    if (this.#meta === undefined) return withoutUndefined({ params });
    return {
      params: { ...params, _meta: { ...this.#meta, ...(asObject(params?.["_meta"]) as JsonObject) } },
    };
  }

  #receive(wire: WireMessage): void {
    this.#record("server-to-client", wire);
    const { message } = wire;
    const id = answeredId(message);
    if (kindOf(message) === "request") return this.#refuse(messageJson(message));
    const give = typeof id === "number" ? this.#waiting.get(id) : undefined;
    const { result, error } = messageJson(message) as JsonObject;
    if (isJsonObject(result)) give?.({ kind: "result", result });
    else give?.({ kind: "error", error: isJsonObject(error) ? error : {} });
  }

  #refuse(message: Json): void {
    const { id, method } = asObject(message);
    const error = { code: errorCodes.methodNotFound, message: `mcpvals does not serve ${String(method)}` };
    this.send(wireMessage({ jsonrpc: "2.0", id: id as number, error })).catch(messageOf);
  }

  #record(direction: "client-to-server" | "server-to-client", wire: WireMessage): void {
    const { message, text } = wire;
    const malformed = malformationOf(message);
    this.#options.emit({
      type: "mcp.message",
      server: this.#host.name,
      direction,
      message: messageJson(message),
      ...(text === JSON.stringify(message) ? {} : { raw: text }),
      ...(malformed === undefined ? {} : { malformed }),
    });
  }

  #lose(): void {
    for (const give of this.#waiting.values()) give({ kind: "lost" });
    this.#closed.resolve();
  }
}

function wantsModern({ code, data }: JsonObject): boolean {
  const { supported } = asObject(data);
  return (
    code === errorCodes.unsupportedVersion && (!Array.isArray(supported) || supported.includes(modernVersion))
  );
}
