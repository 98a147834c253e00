import { McpvalsError } from "../../core/errors/error.ts";
import { isNoAnswer } from "../../core/checks/http-status.ts";
import { pause, withDeadline } from "../../process/deadline.ts";
import {
  answeredId,
  cancelledId,
  requestOf,
  methodOf,
  valueAt,
  type WireMessage,
  readBody,
  readBytes,
  wiresOf,
  versionIn,
} from "../messages/json-rpc.ts";
import {
  type HttpAddress,
  type Channel,
  type ChannelListener,
  type SendOptions,
  isAccepted,
} from "../connections/host.ts";
import { asLoss, explainUnreachable, noAnswerIn, reportNoAnswer } from "./http-errors.ts";
import { messageHeaders } from "../messages/mcp-headers.ts";
import {
  chunksOf,
  eventsOf,
  isEventStream,
  refusalText,
  type StreamReaderOptions,
  wholeOf,
} from "./event-stream.ts";

/** How long the server may take to confirm the end of a session, in milliseconds. */
const farewellMs = 1000;
/** Pause before a stream is resumed, unless the server says, in milliseconds. */
const defaultRetryMs = 1000;
/** Attempts to resume a stream that bring no event. */
const mostRetries = 3;

/** The position in a stream of events. */
interface Progress {
  lastEventId?: string;
  retryMs: number;
}

/** A pending request. */
interface Call {
  readonly wire: WireMessage;
  readonly headers?: SendOptions["headers"] | undefined;
  readonly abort: AbortController;
  isAnswered: boolean;
}

/** A client of Streamable HTTP that leaves the texts of messages as they are: both eras, sessions, resumed streams. */
export class StreamableChannel implements Channel {
  readonly #server: string;
  readonly #address: HttpAddress;
  readonly #listener: ChannelListener;
  readonly #closing = new AbortController();
  readonly #calls = new Map<string | number, Call>();
  readonly #reading: StreamReaderOptions;
  #session: string | undefined;
  #version: string | undefined;
  /** Settles when the next message may be sent: notifications keep their order, and all messages wait for `initialize`. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(server: string, address: HttpAddress, listener: ChannelListener) {
    this.#server = server;
    this.#address = address;
    this.#listener = listener;
    this.#reading = { server, limit: address.maxMessageBytes };
  }

  send(wire: WireMessage, options: SendOptions = {}): Promise<void> {
    if (this.#closing.signal.aborted)
      return Promise.reject(
        explainUnreachable(this.#server, this.#address.url.href, this.#closing.signal.reason),
      );
    // `initialize` may wait for an answer of the client.
    if (answeredId(wire.message) !== undefined) return this.#notify(wire);
    const sent = this.#turn.then(() => this.#sendNow(wire, options));
    this.#turn = sent.catch(() => undefined);
    return sent;
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new Error("the channel was closed"));
    if (this.#session === undefined) return;
    try {
      await withDeadline((signal) => this.#fetch("DELETE", { signal }), {
        ms: farewellMs,
        onTimeout: () => new Error("no answer to DELETE"),
      });
    } catch {
      // Without it the server only keeps the session for longer.
    }
  }

  /** Settles when the next message may be sent. */
  async #sendNow(wire: WireMessage, options: SendOptions): Promise<void> {
    const request = requestOf(wire.message);
    if (request === undefined) return this.#cancels(wire) ? undefined : this.#notify(wire);
    const answered = this.#call(request.id, wire, options);
    if (request.method === "initialize") await answered;
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
    const { signal } = this.#closing;
    const response = await this.#reach(() => this.#post({ wire, signal }));
    // Only a client in this process can be told that its notification was refused.
    if (!response.ok && this.#listener.onNoAnswer !== undefined)
      throw noAnswerIn(response, await refusalText(response), this.#place);
    await response.body?.cancel();
    if (methodOf(wire.message) === "notifications/initialized" && response.ok) void this.#listen();
  }

  /** Never rejects: a failed request is reported to the listener, and a server that is gone closes the channel. */
  async #call(id: string | number, wire: WireMessage, { headers, signal }: SendOptions): Promise<void> {
    const call: Call = { wire, headers, abort: new AbortController(), isAnswered: false };
    const stop = (): void => call.abort.abort();
    this.#closing.signal.addEventListener("abort", stop, { once: true });
    signal?.addEventListener("abort", stop, { once: true });
    this.#calls.set(id, call);
    try {
      await this.#answer(call);
    } catch (error) {
      if (!call.abort.signal.aborted) this.#lose(this.#asLoss(error));
    } finally {
      this.#closing.signal.removeEventListener("abort", stop);
      signal?.removeEventListener("abort", stop);
      if (this.#calls.get(id) === call) this.#calls.delete(id);
    }
  }

  async #answer(call: Call): Promise<void> {
    const { wire, headers, abort } = call;
    const response = await this.#reach(() => this.#post({ wire, signal: abort.signal, headers }));
    this.#session ??= response.headers.get("mcp-session-id") ?? undefined;
    const body = await this.#read(response, call);
    if (call.isAnswered || this.#closing.signal.aborted) return;
    reportNoAnswer(this.#listener, wire, noAnswerIn(response, body, this.#place));
  }

  /** Reads the response to a request; gives the text of its body. */
  async #read(response: Response, call: Call): Promise<string> {
    if (response.ok && isEventStream(response)) {
      await this.#readStream(response, call);
      return "";
    }
    if (!response.ok) {
      const text = await refusalText(response);
      const answer = isNoAnswer(response.status) ? undefined : wiresOf(readBody(text))[0];
      if (answer !== undefined && answeredId(answer.message) === requestOf(call.wire.message)?.id)
        this.#receive(answer, call);
      return text;
    }
    if (isAccepted(response)) {
      await response.body?.cancel();
      return "";
    }
    const bytes = await wholeOf(chunksOf(response), this.#reading);
    const text = bytes.toString("utf8");
    for (const wire of wiresOf(readBytes(bytes, text))) this.#receive(wire, call);
    return text;
  }

  /** Reads a stream to its end, and resumes it where the server supports that. */
  async #readStream(first: Response, call: Call): Promise<void> {
    const progress: Progress = { retryMs: defaultRetryMs };
    let response: Response | undefined = first;
    for (let tries = 0; response !== undefined && tries <= mostRetries; tries++) {
      const before = progress.lastEventId;
      await this.#readEvents(response, progress, call);
      if (call.isAnswered || progress.lastEventId === undefined) return;
      if (progress.lastEventId !== before) tries = 0;
      await pause(progress.retryMs, call.abort.signal);
      response = await this.#openStream(progress.lastEventId, call.abort.signal);
    }
  }

  async #readEvents(response: Response, progress: Progress, call?: Call): Promise<void> {
    try {
      for await (const event of eventsOf(chunksOf(response), this.#reading)) {
        if (event.id !== undefined) progress.lastEventId = event.id;
        progress.retryMs = event.retry ?? progress.retryMs;
        if (event.data === undefined || (event.event ?? "message") !== "message") continue;
        for (const wire of wiresOf(readBytes(event.bytes, event.data))) this.#receive(wire, call);
      }
    } catch (error) {
      if (error instanceof McpvalsError || this.#closing.signal.aborted) throw error;
      // A stream that broke can be resumed if its events have ids.
      if (call !== undefined && !call.isAnswered && progress.lastEventId === undefined) throw error;
    }
  }

  /** Reads the stream for messages that belong to no request; servers may have none. */
  async #listen(): Promise<void> {
    const { signal } = this.#closing;
    const progress: Progress = { retryMs: defaultRetryMs };
    try {
      for (let tries = 0; tries <= mostRetries; tries++) {
        const before = progress.lastEventId;
        const response = await this.#openStream(progress.lastEventId, signal);
        if (response === undefined) return;
        await this.#readEvents(response, progress);
        if (progress.lastEventId !== before) tries = 0;
        await pause(progress.retryMs, signal);
      }
    } catch (error) {
      // The next request shows whether the server is gone.
      if (error instanceof McpvalsError && error.code === "server/message-too-large") this.#lose(error);
    }
  }

  async #openStream(lastEventId: string | undefined, signal: AbortSignal): Promise<Response | undefined> {
    const headers = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
    const response = await this.#fetch("GET", {
      headers: { accept: "text/event-stream", ...headers },
      signal,
    });
    if (response.ok && isEventStream(response)) return response;
    await response.body?.cancel();
    return undefined;
  }

  #receive(wire: WireMessage, call?: Call): void {
    if (this.#closing.signal.aborted) return;
    const id = answeredId(wire.message);
    const answered = id === undefined ? undefined : this.#calls.get(id);
    if (answered !== undefined) answered.isAnswered = true;
    if (call !== undefined && methodOf(call.wire.message) === "initialize" && answered === call) {
      const version = valueAt(wire.message, ["result", "protocolVersion"]);
      if (typeof version === "string") this.#version = version;
    }
    this.#listener.onMessage(wire);
  }

  #post({
    wire,
    headers,
    signal,
  }: Pick<Call, "wire" | "headers"> & { readonly signal: AbortSignal }): Promise<Response> {
    const all = {
      ...headers,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...messageHeaders(wire.message),
    };
    const init = { headers: all, body: wire.text, signal };
    return this.#fetch("POST", init, requestOf(wire.message)?.id);
  }

  async #fetch(method: string, init: RequestInit, requestId?: string | number): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#session !== undefined) headers.set("mcp-session-id", this.#session);
    if (this.#version !== undefined && !headers.has("mcp-protocol-version"))
      headers.set("mcp-protocol-version", this.#version);
    const response = await this.#address.fetch(this.#address.url, { ...init, method, headers });
    const requestIds = requestId === undefined ? [] : [requestId];
    this.#listener.onResponse?.({ method, status: response.status, requestIds });
    return response;
  }

  /** Throws McpvalsError when there is no response. */
  async #reach(request: () => Promise<Response>): Promise<Response> {
    try {
      return await request();
    } catch (error) {
      throw this.#asLoss(error);
    }
  }

  get #place(): { server: string; url: URL } {
    return { server: this.#server, url: this.#address.url };
  }

  #asLoss(error: unknown): McpvalsError {
    return asLoss(error, this.#place);
  }

  #lose(error: McpvalsError): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(error);
    this.#listener.onClosed(error);
  }
}
