import type {
  FetchLike,
  JSONRPCMessage,
  MessageExtraInfo,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  Transport,
} from "@modelcontextprotocol/client";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { HttpServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { withDeadline } from "../../process/deadline.ts";
import type { Evidence, ServerConnection } from "../connection.ts";
import type { ConnectOptions } from "../hosts/host.ts";
import { HttpTap } from "./http-tap.ts";
import { markMalformed } from "../json-rpc.ts";
import { RecordingTransport } from "../recording.ts";
import { RelayTransport } from "../relay-transport.ts";
import type { Sdk } from "../client/sdk.ts";

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
