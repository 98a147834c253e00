import type {
  FetchLike,
  JSONRPCMessage,
  MessageExtraInfo,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  Transport,
} from "@modelcontextprotocol/client";
import { McpvalsError } from "../../core/errors/error.ts";
import type { HttpServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { withDeadline } from "../../process/deadline.ts";
import type { Sdk } from "../client/sdk.ts";
import type { Evidence, ServerConnection } from "../connection.ts";
import type { ConnectOptions } from "../hosts/host.ts";
import { malformationOf, markMalformed } from "../json-rpc.ts";
import { RecordingTransport } from "../recording.ts";
import { RelayTransport } from "../relay-transport.ts";
import { readBytes, wiresOf } from "./body-messages.ts";
import { explainStatus, explainUnreachable, shownUrl } from "./http-errors.ts";
import { cutBody, watchBody } from "./stream-reader.ts";

/** How long the server may take to confirm the end of a session, in milliseconds. */
const farewellMs = 1000;

/** Malformed messages of which it is known at once that they are; the SDK drops some, so that there could be many. */
const mostMalformed = 1000;

export interface HttpConnectionOptions {
  readonly emit: Emit;
  readonly sdk: Sdk;
  /** `fetch` with what the server wants to see in every request. */
  readonly fetch: FetchLike;
  /** Called when the connection was stopped. */
  readonly onEnd: () => void;
  readonly between?: ConnectOptions["between"];
}

/** One client's connection to a server over HTTP; nothing is sent before the transport is started. */
export class HttpConnection implements ServerConnection {
  readonly name: string;
  readonly transport: Transport;
  readonly #emit: Emit;
  readonly #onEnd: () => void;
  readonly #tap: HttpTap;
  readonly #http: StreamableHTTPClientTransport | SSEClientTransport;
  readonly #lost = new AbortController();
  #stopping: Promise<void> | undefined;
  /** What is wrong with messages that are on their way through the SDK, by what tells one from another. */
  readonly #malformed = new Map<string, string>();
  #stopped = false;

  constructor(name: string, spec: HttpServerSpec, options: HttpConnectionOptions) {
    const { emit, sdk, between = (inner: Transport) => inner } = options;
    this.name = name;
    this.#onEnd = options.onEnd;
    this.#emit = (event) => (this.#stopped ? 0 : emit(event));
    this.#tap = new HttpTap({
      server: name,
      spec,
      fetch: options.fetch,
      emit: this.#emit,
      onLost: (error) => this.#lose(error),
      onMalformed: (message, problem) => {
        if (this.#malformed.size < mostMalformed) this.#malformed.set(kindOf(message), problem);
      },
    });
    const transportOptions = { fetch: this.#tap.fetch };
    const url = new URL(spec.url);
    this.#http =
      spec.transport === "sse"
        ? new sdk.SSEClientTransport(url, transportOptions)
        : new sdk.StreamableHTTPClientTransport(url, transportOptions);
    this.transport = new RecordingTransport(between(new MarkingTransport(this.#http, this.#malformed)), {
      server: name,
      emit: this.#emit,
      onBroken: (error) => this.#lose(error),
    });
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  evidence(): Evidence {
    const { failure } = this.#tap;
    return failure === undefined ? {} : { httpFailure: failure };
  }

  /** A request will never be answered: a broken stream means a broken connection. */
  unanswered(): void {
    if (this.#tap.broken !== undefined) this.#lose(this.#tap.broken);
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    await this.#endSession();
    await this.#http.close();
    this.#stopped = true;
    this.#onEnd();
  }

  async #endSession(): Promise<void> {
    const http = this.#http;
    if (!("terminateSession" in http) || this.#lost.signal.aborted) return;
    try {
      await withDeadline(() => http.terminateSession(), {
        ms: farewellMs,
        onTimeout: () => new Error("no answer to DELETE"),
      });
    } catch {
      // A courtesy: the server forgets the session sooner. What it answered is on record as http.response.
    }
  }

  #lose(error: McpvalsError): void {
    if (this.#stopping !== undefined || this.#lost.signal.aborted) return;
    this.#lost.abort(error);
    void this.#http.close();
  }
}

/** Marks malformed messages, of which the SDK makes new objects. */
class MarkingTransport extends RelayTransport {
  readonly #malformed: Map<string, string>;

  constructor(inner: Transport, malformed: Map<string, string>) {
    super(inner);
    this.#malformed = malformed;
  }

  protected override receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    const kind = kindOf(message);
    const problem = this.#malformed.get(kind);
    this.#malformed.delete(kind);
    if (problem !== undefined) markMalformed(message, problem);
    super.receive(message, extra);
  }
}

/** What tells a message from others that may be on their way at the same time, in a few characters. */
function kindOf(message: JSONRPCMessage): string {
  const kind = JSON.stringify("method" in message ? [message.method] : ["answer", message.id ?? null]);
  return kind.slice(0, 100);
}

export interface HttpTapOptions {
  readonly server: string;
  readonly spec: HttpServerSpec;
  readonly fetch: FetchLike;
  readonly emit: Emit;
  /** The connection as a whole is gone. */
  readonly onLost: (error: McpvalsError) => void;
  /** A malformed message is about to be passed on. */
  readonly onMalformed: (message: JSONRPCMessage, problem: string) => void;
}

/** Sees every HTTP exchange with one server: records its status, limits its size, and keeps why the last one failed. */
export class HttpTap {
  readonly fetch: FetchLike = (url, init) => this.#fetch(url, init);
  readonly #options: HttpTapOptions;
  #failure: McpvalsError | undefined;
  #broken: McpvalsError | undefined;

  constructor(options: HttpTapOptions) {
    this.#options = options;
  }

  /** How the last exchange failed; undefined when it went well. */
  get failure(): McpvalsError | undefined {
    return this.#failure;
  }

  /** Why the last stream of answers broke off in the middle. */
  get broken(): McpvalsError | undefined {
    return this.#broken;
  }

  async #fetch(url: string | URL, init: RequestInit | undefined): Promise<Response> {
    const { server, emit, fetch } = this.#options;
    const method = (init?.method ?? "GET").toUpperCase();
    let response: Response;
    try {
      response = await fetch(url, init);
    } catch (error) {
      if (init?.signal?.aborted !== true) throw this.#unreachable(error);
      throw error;
    }
    const { status } = response;
    emit({ type: "http.response", server, method, status, requestIds: requestIds(init?.body) });
    const counts = method === "POST" || (method === "GET" && this.#options.spec.transport === "sse");
    if (counts) this.#failure = response.ok ? undefined : explainStatus(server, response, { url, method });
    if (response.body === null) return response;
    return response.ok
      ? this.#watch(response, response.body, { method, init })
      : withBody(response, cutBody(response.body, longestRefusal));
  }

  #unreachable(error: unknown): McpvalsError {
    const { server, spec, onLost } = this.#options;
    this.#failure = error instanceof McpvalsError ? error : explainUnreachable(server, spec.url, error);
    onLost(this.#failure);
    return this.#failure;
  }

  #watch(
    response: Response,
    body: ReadableStream<Uint8Array>,
    { method, init }: { method: string; init: RequestInit | undefined },
  ): Response {
    const { server, spec, onLost, onMalformed } = this.#options;
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    const isLifeline = spec.transport === "sse" && method === "GET";
    const watched = watchBody(body, {
      server,
      limit: spec.maxMessageBytes,
      isEventStream: isStream,
      onRefused: onLost,
      onBroken: (cause) => {
        if (init?.signal?.aborted === true) return;
        this.#broken = explainUnreachable(server, spec.url, cause);
        // A stream of answers may be taken up again; without it, or with the only one, the end is final.
        if (isLifeline || (method === "POST" && !isStream)) onLost(this.#broken);
      },
      onText: (bytes, data) => {
        for (const { message } of wiresOf(readBytes(bytes, data))) {
          const problem = malformationOf(message);
          if (problem !== undefined) onMalformed(message, problem);
        }
      },
      onEnd: () => {
        if (isLifeline) onLost(streamEnded(server, spec.url));
      },
    });
    return withBody(response, watched);
  }
}

/** Read of the body of a response whose status is an error, in bytes. */
const longestRefusal = 64 * 1024;

function withBody({ status, statusText, headers }: Response, body: ReadableStream<Uint8Array>): Response {
  return new Response(body, { status, statusText, headers });
}

function streamEnded(server: string, url: string): McpvalsError {
  return new McpvalsError(
    "server/unreachable",
    `server "${server}" ended the event stream ${shownUrl(url)}, over which all its answers come`,
    { hint: "See the server's own log for why." },
  );
}

/** Ids of the JSON-RPC requests in a body that the SDK wrote. */
function requestIds(body: unknown): (string | number)[] {
  if (typeof body !== "string") return [];
  const message: unknown = JSON.parse(body);
  return [message].flat().flatMap((one) => idOf(one) ?? []);
}

function idOf(message: unknown): string | number | undefined {
  if (typeof message !== "object" || message === null || !("method" in message && "id" in message))
    return undefined;
  return typeof message.id === "string" || typeof message.id === "number" ? message.id : undefined;
}
