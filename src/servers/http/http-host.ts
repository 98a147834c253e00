import { isNoAnswer } from "../../expect/tool-result.ts";
import { McpvalsError } from "../../base/error.ts";
import { valueAt, withoutUndefined } from "../../base/json.ts";
import { jsonExcess } from "../../base/read-json.ts";
import type { HttpServerSpec } from "../../model/server.ts";
import type { Emit } from "../../model/event.ts";
import { AdaptiveLimit } from "../../process/adaptive-limit.ts";
import { pause, untilAborted, withDeadline } from "../../process/deadline.ts";
import {
  type Channel,
  type ChannelListener,
  type ConnectOptions,
  type HttpAddress,
  HttpNoAnswer,
  type HttpRequest,
  type HttpResponse,
  isAccepted,
  type SendOptions,
  type SendRequest,
  ServerConnection,
  type ServerHost,
  Watchers,
} from "../connections/host.ts";
import {
  answeredId,
  cancelledId,
  errorAnswer,
  isRepeatable,
  messageHeaders,
  type MessageId,
  methodOf,
  noteArray,
  readBody,
  readBytes,
  requestOf,
  versionIn,
  type WireMessage,
} from "../messages/json-rpc.ts";
import { eventsOf, isEventStream, type ReadLimits, refusalText, wholeOf } from "./event-stream.ts";
import { explainStatus, explainUnreachable, noAnswerIn, type Place, displayUrl } from "./http-errors.ts";
import { type ListeningProgram, startListeningProgram } from "./listening-program.ts";
import { createServerRequests } from "./server-requests.ts";
import { throttledRequests } from "./throttled-requests.ts";
import { errorCodes } from "../../model/error-codes.ts";

/**
 * Creates the host of a server with an address, and starts its program if it has one; no message is sent yet. Throws McpvalsError
 * `server/unreachable` and `server/spawn-failed`.
 */
export async function openHttpHost(
  name: string,
  spec: HttpServerSpec,
  limit: AdaptiveLimit = new AdaptiveLimit(Infinity),
): Promise<ServerHost> {
  if (!URL.canParse(spec.url))
    throw new McpvalsError("server/unreachable", `server "${name}": not a URL: ${JSON.stringify(spec.url)}`, {
      hint: "Give a complete url, such as http://127.0.0.1:3000/mcp.",
    });
  const { program } = spec;
  return new HttpHost(
    name,
    spec,
    limit,
    program && (await startListeningProgram(name, { ...spec, program })),
  );
}

/** A server with an address: every client has a session of its own, and the loss of one does not concern the others. */
class HttpHost implements ServerHost {
  readonly name: string;
  readonly transport: HttpServerSpec["transport"];
  readonly address: HttpAddress;
  readonly isProgram: boolean;
  /** Without a program it never aborts: only channels notice that the server is gone. */
  readonly lost: AbortSignal;
  readonly #program: ListeningProgram | undefined;
  readonly #watchers: Watchers;
  readonly #channels = new Set<Channel>();
  #stopping: Promise<void> | undefined;

  constructor(
    name: string,
    spec: HttpServerSpec,
    limit: AdaptiveLimit,
    program: ListeningProgram | undefined,
  ) {
    const { transport, url, maxMessageBytes } = spec;
    this.name = name;
    this.transport = transport;
    this.isProgram = program !== undefined;
    this.lost = program?.lost ?? new AbortController().signal;
    this.#program = program;
    const send = createServerRequests(spec);
    this.address = {
      transport,
      url: new URL(url),
      send: throttledRequests(program === undefined ? send : sendWhenReady(send, program), limit),
      maxMessageBytes,
    };
    this.#watchers = new Watchers(name, { transport, target: displayUrl(url) });
  }

  watch(emit: Emit): () => void {
    return this.#program?.watch(emit) ?? this.#watchers.add(emit);
  }

  connect(emit: Emit, { filters, onHeld }: ConnectOptions = {}): ServerConnection {
    return new ServerConnection({
      name: this.name,
      emit,
      open: (listener) => this.open(listener),
      hostLost: this.lost,
      hasPerRequestStream: this.transport === "shttp",
      filters,
      onHeld,
      ...(this.#program === undefined ? {} : { evidence: () => this.#program?.evidence() ?? {} }),
    });
  }

  /** The older transport connects at once, to get the address for messages; Streamable HTTP with the first message. */
  open(listener: ChannelListener): Channel {
    const Kind = this.transport === "sse" ? SseChannel : StreamableChannel;
    const channel = new Kind(this.name, this.address, this.#program?.listenerOf(listener) ?? listener);
    this.#channels.add(channel);
    return {
      get session() {
        return channel.session;
      },
      send: (wire, options) => channel.send(wire, options),
      close: () => {
        this.#channels.delete(channel);
        return channel.close();
      },
    };
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const started = performance.now();
    await Promise.all([...this.#channels].map((channel) => channel.close()));
    if (this.#program !== undefined) return this.#program.stop();
    this.#watchers.stop("disconnect", performance.now() - started);
  }
}

/** Sends nothing before the program listens. */
function sendWhenReady(send: SendRequest, { ready }: ListeningProgram): SendRequest {
  return async (url, request) => {
    await (request.signal ? untilAborted(ready, request.signal) : ready);
    return send(url, request);
  };
}

/** A client of a server with an address, which leaves the texts of messages as they are. */
abstract class HttpChannel implements Channel {
  session: string | undefined;
  protected readonly place: Place;
  protected readonly address: HttpAddress;
  protected readonly listener: ChannelListener;
  protected readonly limits: ReadLimits;
  protected readonly closing: AbortController = new AbortController();
  /** Settles when the next message may be sent. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(server: string, address: HttpAddress, listener: ChannelListener) {
    this.place = { server, url: address.url };
    this.address = address;
    this.listener = listener;
    this.limits = { server, limit: address.maxMessageBytes };
  }

  abstract send(wire: WireMessage, options?: SendOptions): Promise<void>;

  abstract close(): Promise<void>;

  protected inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  /** Throws McpvalsError when there is no response. */
  protected async request(url: URL, request: HttpRequest, id?: MessageId): Promise<HttpResponse> {
    const requestIds = id === undefined ? [] : [id];
    try {
      const notes = this.listener.rateLimitNotes?.(request.method, requestIds);
      const response = await this.address.send(url, request, notes);
      this.listener.onResponse?.({ method: request.method, status: response.status, requestIds });
      return response;
    } catch (error) {
      throw explainUnreachable(this.place, error);
    }
  }

  /** Tells the client that a request has no answer: in its own way, or with a JSON-RPC error in place of the answer. */
  protected reportNoAnswer(request: WireMessage, failure: HttpNoAnswer): void {
    if (this.listener.onNoAnswer !== undefined) return this.listener.onNoAnswer(request, failure);
    const id = requestOf(request.message)?.id;
    if (id !== undefined) this.listener.onMessage(errorAnswer(id, errorCodes.server, failure.message));
  }

  /** The server is lost to this client. */
  protected lose(error: unknown): void {
    if (this.closing.signal.aborted) return;
    const loss = explainUnreachable(this.place, error);
    this.closing.abort(loss);
    this.listener.onClosed(loss);
  }
}

/** A client of the older HTTP+SSE transport: all messages of the server come over one stream of events. */
class SseChannel extends HttpChannel {
  /** Where messages are sent to. */
  readonly #endpoint = Promise.withResolvers<URL>();

  constructor(server: string, address: HttpAddress, listener: ChannelListener) {
    super(server, address, listener);
    void this.#listen();
  }

  send(wire: WireMessage, { headers }: SendOptions = {}): Promise<void> {
    return this.inTurn(() => this.#post(wire, headers));
  }

  close(): Promise<void> {
    this.closing.abort(new Error("the channel was closed"));
    return Promise.resolve();
  }

  async #listen(): Promise<void> {
    const { url } = this.place;
    try {
      const headers = { accept: "text/event-stream" };
      const response = await this.request(url, { method: "GET", headers, signal: this.closing.signal });
      if (!response.ok) throw explainStatus(this.place, "GET", response);
      for await (const { event = "message", data = "", bytes } of eventsOf(response, this.limits)) {
        if (event === "endpoint") this.#endpoint.resolve(this.#checked(new URL(data, url)));
        if (event !== "message") continue;
        for (const wire of readBytes(bytes, data).wires)
          if (!this.closing.signal.aborted) this.listener.onMessage(wire);
      }
      throw new McpvalsError(
        "server/unreachable",
        `server "${this.place.server}" ended the event stream ${displayUrl(url)}, over which all its answers come`,
        { hint: "See the server's own log for why." },
      );
    } catch (error) {
      this.lose(error);
    }
  }

  /** The configured headers, which may hold secrets, are only for the origin of the url. */
  #checked(endpoint: URL): URL {
    if (endpoint.origin === this.place.url.origin) return endpoint;
    throw new McpvalsError(
      "server/protocol-error",
      `server "${this.place.server}" names an endpoint at another origin: ${displayUrl(endpoint)}`,
      { hint: "The endpoint has to have the scheme, host and port of the url." },
    );
  }

  async #post(wire: WireMessage, more: SendOptions["headers"]): Promise<void> {
    const { signal } = this.closing;
    const id = requestOf(wire.message)?.id;
    try {
      const url = await untilAborted(this.#endpoint.promise, signal);
      const headers = { ...more, "content-type": "application/json", ...messageHeaders(wire.message) };
      const response = await this.request(url, { method: "POST", headers, body: wire.text, signal }, id);
      const text = await refusalText(response);
      if (response.ok) return;
      const failure = noAnswerIn({ ...this.place, url }, response, text);
      if (id !== undefined) this.reportNoAnswer(wire, failure);
      else if (this.listener.onNoAnswer !== undefined) throw failure;
    } catch (error) {
      if (error instanceof HttpNoAnswer) throw error;
      const loss = explainUnreachable(this.place, error);
      this.lose(loss);
      throw loss;
    }
  }
}

/** How long the server may take to confirm the end of a session, in milliseconds. */
const farewellMs = 1000;
/** Pause before a stream is resumed, unless the server says, in milliseconds. */
const defaultRetryMs = 1000;
/** Attempts to resume a stream that bring no event. */
const maxRetries = 3;

/** The position in a stream of events. */
interface Progress {
  lastEventId?: string;
  retryMs: number;
}

/** A pending request. */
interface Call {
  readonly wire: WireMessage;
  readonly headers: SendOptions["headers"];
  readonly abort: AbortController;
  isAnswered: boolean;
}

/** A client of Streamable HTTP: both eras, sessions, resumed streams. */
class StreamableChannel extends HttpChannel {
  readonly #calls = new Map<MessageId, Call>();
  #version: string | undefined;

  /** Notifications keep their order, and all messages wait for `initialize`. */
  send(wire: WireMessage, options: SendOptions = {}): Promise<void> {
    const { aborted, reason } = this.closing.signal;
    if (aborted) return Promise.reject(explainUnreachable(this.place, reason));
    // `initialize` may wait for an answer of the client.
    if (answeredId(wire.message) !== undefined) return this.#notify(wire);
    return this.inTurn(async () => {
      const request = requestOf(wire.message);
      if (request === undefined) return this.#cancels(wire) ? undefined : this.#notify(wire);
      const answered = this.#call(request.id, wire, options);
      if (request.method === "initialize") await answered;
    });
  }

  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.closing.abort(new Error("the channel was closed"));
    if (this.session === undefined) return;
    // Without it the server only keeps the session for longer.
    await withDeadline((signal) => this.#request("DELETE", { headers: {}, signal }), {
      ms: farewellMs,
      onTimeout: () => new Error("no answer to DELETE"),
    }).catch(() => undefined);
  }

  /** In 2026-07-28 a request is cancelled by ending it. */
  #cancels({ message }: WireMessage): boolean {
    const id = cancelledId(message);
    const call = id === undefined ? undefined : this.#calls.get(id);
    if (call === undefined || versionIn(call.wire.message) === undefined) return false;
    call.isAnswered = true;
    call.abort.abort();
    return true;
  }

  async #notify(wire: WireMessage): Promise<void> {
    const response = await this.#post(wire, {}, this.closing.signal);
    // Only a client in this process can be told that its notification was refused.
    if (!response.ok && this.listener.onNoAnswer !== undefined)
      throw noAnswerIn(this.place, response, await refusalText(response));
    response.cancel();
    if (methodOf(wire.message) === "notifications/initialized" && response.ok) void this.#listen();
  }

  /** Never rejects: a failed request is reported to the listener, and a server that is gone closes the channel. */
  async #call(id: MessageId, wire: WireMessage, { headers, signal }: SendOptions): Promise<void> {
    const call: Call = { wire, headers, abort: new AbortController(), isAnswered: false };
    const stop = (): void => call.abort.abort();
    this.closing.signal.addEventListener("abort", stop, { once: true });
    signal?.addEventListener("abort", stop, { once: true });
    this.#calls.set(id, call);
    try {
      const response = await this.#post(wire, headers, call.abort.signal);
      this.session ??= response.headers["mcp-session-id"];
      const body = await this.#read(response, call);
      if (!call.isAnswered && !this.closing.signal.aborted)
        this.reportNoAnswer(wire, noAnswerIn(this.place, response, body));
    } catch (error) {
      if (!call.abort.signal.aborted) this.lose(error);
    } finally {
      this.closing.signal.removeEventListener("abort", stop);
      signal?.removeEventListener("abort", stop);
      if (this.#calls.get(id) === call) this.#calls.delete(id);
    }
  }

  /** Reads the response to a request; gives the text of its body. */
  async #read(response: HttpResponse, call: Call): Promise<string> {
    if (response.ok && isEventStream(response)) {
      await this.#readStream(response, call.abort.signal, call);
      return "";
    }
    if (!response.ok) {
      const text = await refusalText(response);
      const isUnread = isNoAnswer(response.status) || jsonExcess(Buffer.from(text)) !== undefined;
      const answer = isUnread ? undefined : readBody(text).wires[0];
      if (answer !== undefined && answeredId(answer.message) === requestOf(call.wire.message)?.id)
        this.#receive(answer, call);
      return text;
    }
    if (isAccepted(response)) {
      response.cancel();
      return "";
    }
    const bytes = await wholeOf(response, this.limits);
    const text = bytes.toString("utf8");
    const { kind, wires } = readBytes(bytes, text);
    if (kind === "batch") noteArray(wires);
    for (const wire of wires) this.#receive(wire, call);
    return text;
  }

  /** Reads the stream for messages that belong to no request; servers may have none. */
  async #listen(): Promise<void> {
    const { signal } = this.closing;
    try {
      const stream = await this.#openStream(undefined, signal);
      if (stream !== undefined) await this.#readStream(stream, signal);
    } catch (error) {
      // The next request shows whether the server is gone.
      if (error instanceof McpvalsError && error.code === "server/message-too-large") this.lose(error);
    }
  }

  /** Reads a stream to its end, and resumes it where the server supports that. */
  async #readStream(first: HttpResponse, signal: AbortSignal, call?: Call): Promise<void> {
    const progress: Progress = { retryMs: defaultRetryMs };
    let response: HttpResponse | undefined = first;
    for (let tries = 0; response !== undefined; tries++) {
      const before = progress.lastEventId;
      await this.#readEvents(response, progress, call);
      if (call !== undefined && (call.isAnswered || progress.lastEventId === undefined)) return;
      if (progress.lastEventId !== before) tries = 0;
      if (tries === maxRetries) return;
      await pause(progress.retryMs, signal);
      response = await this.#openStream(progress.lastEventId, signal);
    }
  }

  async #readEvents(response: HttpResponse, progress: Progress, call?: Call): Promise<void> {
    try {
      for await (const event of eventsOf(response, this.limits)) {
        if (event.id !== undefined) progress.lastEventId = event.id;
        progress.retryMs = event.retry ?? progress.retryMs;
        if (event.data === undefined || (event.event ?? "message") !== "message") continue;
        for (const wire of readBytes(event.bytes, event.data).wires) this.#receive(wire, call);
      }
    } catch (error) {
      if (error instanceof McpvalsError || this.closing.signal.aborted) throw error;
      // A stream that broke can be resumed if its events have ids.
      if (call !== undefined && !call.isAnswered && progress.lastEventId === undefined) throw error;
    }
  }

  async #openStream(lastEventId: string | undefined, signal: AbortSignal): Promise<HttpResponse | undefined> {
    const after = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
    const response = await this.#request("GET", {
      headers: { accept: "text/event-stream", ...after },
      signal,
    });
    if (response.ok && isEventStream(response)) return response;
    response.cancel();
    return undefined;
  }

  #receive(wire: WireMessage, call?: Call): void {
    if (this.closing.signal.aborted) return;
    const id = answeredId(wire.message);
    const answered = id === undefined ? undefined : this.#calls.get(id);
    if (answered !== undefined) answered.isAnswered = true;
    if (call !== undefined && methodOf(call.wire.message) === "initialize" && answered === call) {
      const version = valueAt(wire.message, ["result", "protocolVersion"]);
      if (typeof version === "string") this.#version = version;
    }
    this.listener.onMessage(wire);
  }

  #post(wire: WireMessage, more: SendOptions["headers"], signal: AbortSignal): Promise<HttpResponse> {
    const headers = {
      ...more,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...messageHeaders(wire.message),
    };
    const request = { headers, body: wire.text, signal, isRepeatable: isRepeatable(wire.message) };
    return this.#request("POST", request, requestOf(wire.message)?.id);
  }

  #request(
    method: string,
    { headers, ...rest }: Omit<HttpRequest, "method">,
    id?: MessageId,
  ): Promise<HttpResponse> {
    const own = withoutUndefined({ "mcp-session-id": this.session, "mcp-protocol-version": this.#version });
    return this.request(this.place.url, { ...rest, method, headers: { ...own, ...headers } }, id);
  }
}
