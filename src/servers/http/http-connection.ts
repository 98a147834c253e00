import type {
  SSEClientTransport,
  StreamableHTTPClientTransport,
  Transport,
} from "@modelcontextprotocol/client";
import { McpvalsError } from "../../core/errors/error.ts";
import type { HttpServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { withDeadline } from "../../process/deadline.ts";
import type { Evidence, ServerConnection } from "../connection.ts";
import { shownUrl } from "./http-errors.ts";
import { HttpTap } from "./http-tap.ts";
import { RecordingTransport } from "../recording.ts";
import type { Sdk } from "../client/sdk.ts";

/** How long the server may take to confirm the end of a session, in milliseconds. */
const farewellMs = 1000;

export interface HttpConnectionOptions {
  readonly emit: Emit;
  readonly sdk: Sdk;
}

/** Prepares the connection to a server over HTTP; nothing is sent before the transport is started. Throws McpvalsError. */
export function openHttpConnection(
  name: string,
  spec: HttpServerSpec,
  options: HttpConnectionOptions,
): ServerConnection {
  if (!URL.canParse(spec.url))
    throw new McpvalsError("server/unreachable", `server "${name}": not a URL: ${JSON.stringify(spec.url)}`, {
      hint: "Give a complete url, such as http://127.0.0.1:3000/mcp.",
    });
  return new HttpConnection(name, spec, options);
}

class HttpConnection implements ServerConnection {
  readonly name: string;
  readonly transport: Transport;
  readonly #emit: Emit;
  readonly #tap: HttpTap;
  readonly #http: StreamableHTTPClientTransport | SSEClientTransport;
  readonly #lost = new AbortController();
  #stopping: Promise<void> | undefined;
  #stopped = false;

  constructor(name: string, spec: HttpServerSpec, { emit, sdk }: HttpConnectionOptions) {
    this.name = name;
    this.#emit = (event) => (this.#stopped ? 0 : emit(event));
    this.#tap = new HttpTap({
      server: name,
      spec,
      emit: this.#emit,
      onLost: (error) => this.#lose(error),
    });
    const options = { fetch: this.#tap.fetch, requestInit: { headers: { ...spec.headers } } };
    const url = new URL(spec.url);
    this.#http =
      spec.transport === "sse"
        ? new sdk.SSEClientTransport(url, options)
        : new sdk.StreamableHTTPClientTransport(url, options);
    this.transport = new RecordingTransport(this.#http, {
      server: name,
      emit: this.#emit,
      onBroken: (error) => this.#lose(error),
    });
    this.#emit({
      type: "server.started",
      server: name,
      transport: spec.transport,
      target: shownUrl(spec.url),
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
    const started = performance.now();
    await this.#endSession();
    await this.#http.close();
    const durationMs = performance.now() - started;
    this.#emit({ type: "server.stopped", server: this.name, by: "disconnect", durationMs });
    this.#stopped = true;
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
