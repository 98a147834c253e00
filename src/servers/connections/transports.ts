import type {
  JSONRPCMessage,
  MessageExtraInfo,
  RequestId,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/client";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { Emit } from "../../core/trace/events.ts";
import { malformationOf, messageJson, type WireMessage, wireMessage } from "../messages/json-rpc.ts";
import { ReceiveLimits } from "../messages/message-limits.ts";
import {
  type Channel,
  type ChannelListener,
  type ConnectOptions,
  type Evidence,
  HttpNoAnswer,
  type HttpResponseInfo,
  isAccepted,
  type ServerConnection,
} from "./host.ts";

/** A transport that passes everything on to another one; subclasses read or change messages on the way. */
export class RelayTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage, extra?: MessageExtraInfo) => void;
  readonly #inner: Transport;

  constructor(inner: Transport) {
    this.#inner = inner;
    Object.assign(inner, {
      onclose: () => this.onclose?.(),
      onerror: (error) => this.onerror?.(error),
      onmessage: (message, extra) => this.receive(message, extra),
    } satisfies Partial<Transport>);
  }

  get sessionId(): string | undefined {
    return this.#inner.sessionId;
  }

  get hasPerRequestStream(): boolean {
    return this.#inner.hasPerRequestStream === true;
  }

  start(): Promise<void> {
    return this.#inner.start();
  }

  send(message: JSONRPCMessage, options?: RequestOptions): Promise<void> {
    return this.#inner.send(message, options);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion?.(version);
  }

  setSupportedProtocolVersions(versions: string[]): void {
    this.#inner.setSupportedProtocolVersions?.(versions);
  }

  protected receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    this.onmessage?.(message, extra);
  }
}

export interface RecordingOptions {
  readonly server: string;
  readonly emit: Emit;
  /** The text of a received message, where serializing the message would give another text. */
  readonly rawText?: (message: JSONRPCMessage) => string | undefined;
  /** Called for a message beyond the limits; it is neither recorded nor passed on. */
  readonly onBroken: (error: McpvalsError) => void;
}

/**
 * Records every message of a transport, in both directions, as `mcp.message` before it is passed on unchanged, whatever its
 * method and version.
 */
export class RecordingTransport extends RelayTransport {
  readonly #options: RecordingOptions;
  readonly #limits: ReceiveLimits;

  constructor(inner: Transport, options: RecordingOptions) {
    super(inner);
    this.#options = options;
    this.#limits = new ReceiveLimits(options.server);
  }

  override send(message: JSONRPCMessage, options?: RequestOptions): Promise<void> {
    const { server, emit } = this.#options;
    emit({ type: "mcp.message", server, direction: "client-to-server", message: messageJson(message) });
    return super.send(message, options);
  }

  protected override receive(received: JSONRPCMessage, extra?: MessageExtraInfo): void {
    const { server, emit, rawText, onBroken } = this.#options;
    const problem = this.#limits.problemOf(received);
    if (problem !== undefined) {
      onBroken(problem);
      return;
    }
    const message = messageJson(received);
    const raw = rawText?.(received);
    const malformed = malformationOf(received);
    const direction = "server-to-client";
    emit({
      type: "mcp.message",
      server,
      direction,
      message,
      ...(raw === undefined ? {} : { raw }),
      ...(malformed === undefined ? {} : { malformed }),
    });
    super.receive(received, extra);
  }
}

/** Options of a request of a client in this process. */
export type RequestOptions = TransportSendOptions & {
  readonly onNoAnswer?: (failure: HttpNoAnswer) => void;
};

export interface ChannelTransportOptions {
  readonly hasPerRequestStream?: boolean;
  readonly onResponse?: (response: HttpResponseInfo) => void;
  /** Called when the channel was lost for a reason of its own. */
  readonly onLost?: (error: McpvalsError) => void;
}

/** A channel as a transport of the SDK; it is opened when the transport is started. */
export class ChannelTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly hasPerRequestStream: boolean;
  readonly #open: (listener: ChannelListener) => Channel;
  readonly #options: ChannelTransportOptions;
  /** Called for a request without an answer, by id. */
  readonly #onNoAnswer = new Map<RequestId, NonNullable<RequestOptions["onNoAnswer"]>>();
  /** The message that is being delivered, with its text. */
  #received: WireMessage | undefined;
  #httpFailure: McpvalsError | undefined;
  #channel: Channel | undefined;
  #closed = false;

  constructor(open: (listener: ChannelListener) => Channel, options: ChannelTransportOptions = {}) {
    this.#open = open;
    this.#options = options;
    this.hasPerRequestStream = options.hasPerRequestStream === true;
  }

  start(): Promise<void> {
    if (this.#closed) return Promise.reject(new Error("the channel was closed before it was opened"));
    const { onResponse, onLost } = this.#options;
    this.#channel = this.#open({
      onMessage: (wire) => this.#receive(wire),
      onClosed: (reason) => {
        if (reason !== undefined) onLost?.(reason);
        this.#end();
      },
      onResponse: (response) => onResponse?.(response),
      onNoAnswer: (request, failure) => this.#noAnswer(request, failure),
    });
    return Promise.resolve();
  }

  async send(message: JSONRPCMessage, options: RequestOptions = {}): Promise<void> {
    if (this.#closed || this.#channel === undefined) throw new Error("the channel to the server is closed");
    const { headers, requestSignal: signal, onNoAnswer } = options;
    if ("method" in message && "id" in message && onNoAnswer !== undefined)
      this.#onNoAnswer.set(message.id, onNoAnswer);
    try {
      await this.#channel.send(wireMessage(message), {
        ...(headers === undefined ? {} : { headers }),
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      if (error instanceof HttpNoAnswer) this.#httpFailure = error.statusError;
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#end();
    await this.#channel?.close();
  }

  evidence(): Evidence {
    return this.#httpFailure === undefined ? {} : { httpFailure: this.#httpFailure };
  }

  /**
   * The text that a message was read from, if serializing the message would give another text; only while the message is
   * delivered.
   */
  rawText(message: JSONRPCMessage): string | undefined {
    const received = this.#received;
    if (received?.message !== message) return undefined;
    return received.text === JSON.stringify(message) ? undefined : received.text;
  }

  #receive(wire: WireMessage): void {
    if (this.#closed) return;
    const { message } = wire;
    if (!("method" in message) && message.id !== undefined) {
      this.#onNoAnswer.delete(message.id);
      this.#httpFailure = undefined;
    }
    this.#received = wire;
    this.onmessage?.(message);
    this.#received = undefined;
  }

  #noAnswer({ message }: WireMessage, failure: HttpNoAnswer): void {
    // The answer may come over another stream.
    if (isAccepted(failure) || !("id" in message)) return;
    this.#httpFailure = failure.statusError;
    const { id } = message;
    if (id === undefined) return;
    const report = this.#onNoAnswer.get(id);
    this.#onNoAnswer.delete(id);
    report?.(failure);
  }

  #end(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onclose?.();
  }
}

export interface ChannelConnectionOptions {
  readonly name: string;
  readonly emit: Emit;
  readonly open: (listener: ChannelListener) => Channel;
  /** Aborts when the server itself is lost. */
  readonly hostLost: AbortSignal;
  readonly evidence?: () => Evidence;
  /** Whether each request has an HTTP response of its own, by whose end it is cancelled. */
  readonly hasPerRequestStream?: boolean;
  readonly between?: ConnectOptions["between"];
}

/** A recorded connection over a channel of a host. */
export class ChannelConnection implements ServerConnection {
  readonly name: string;
  readonly transport: Transport;
  readonly #options: ChannelConnectionOptions;
  readonly #channel: ChannelTransport;
  readonly #lost = new AbortController();
  readonly #follow = (): void => this.#lose(this.#options.hostLost.reason);
  #stopping = false;
  #stopped = false;

  constructor(options: ChannelConnectionOptions) {
    const { name, open, hostLost, between = (inner) => inner } = options;
    const emit: Emit = (event) => (this.#stopped ? 0 : options.emit(event));
    this.name = name;
    this.#options = options;
    this.#channel = new ChannelTransport(open, {
      hasPerRequestStream: options.hasPerRequestStream === true,
      onResponse: (response) => emit({ type: "http.response", server: name, ...response }),
      onLost: (error) => this.#lose(error),
    });
    this.transport = new RecordingTransport(between(this.#channel), {
      server: name,
      emit,
      rawText: (message) => this.#channel.rawText(message),
      onBroken: (error) => this.#break(error),
    });
    if (hostLost.aborted) this.#follow();
    hostLost.addEventListener("abort", this.#follow, { once: true });
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  evidence(): Evidence {
    return this.#options.evidence?.() ?? this.#channel.evidence();
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#options.hostLost.removeEventListener("abort", this.#follow);
    await this.#channel.close();
    this.#stopped = true;
  }

  /** A message beyond the limits ends this connection; the server may go on. */
  #break(error: McpvalsError): void {
    this.#lose(error);
    void this.#channel.close();
  }

  #lose(reason: unknown): void {
    if (!this.#stopping && !this.#lost.signal.aborted) this.#lost.abort(reason);
  }
}
