import { McpvalsError } from "../../core/errors/error.ts";
import type { HttpServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import type {
  Channel,
  ChannelListener,
  ConnectOptions,
  HttpAddress,
  ServerConnection,
  ServerHost,
} from "../connections/host.ts";
import { ChannelConnection } from "../connections/transports.ts";
import { shownUrl } from "./http-errors.ts";
import { createServerFetch } from "./server-fetch.ts";
import { SseChannel } from "./sse-channel.ts";
import { StreamableChannel } from "./streamable-channel.ts";

/** Creates the host of a server with an address; nothing is sent yet. Throws McpvalsError `server/unreachable`. */
export function openHttpHost(name: string, spec: HttpServerSpec): ServerHost {
  if (!URL.canParse(spec.url))
    throw new McpvalsError("server/unreachable", `server "${name}": not a URL: ${JSON.stringify(spec.url)}`, {
      hint: "Give a complete url, such as http://127.0.0.1:3000/mcp.",
    });
  return new HttpHost(name, spec);
}

/** A server with an address: every client has a session of its own, and the loss of one does not concern the others. */
class HttpHost implements ServerHost {
  readonly name: string;
  readonly transport: HttpServerSpec["transport"];
  readonly address: HttpAddress;
  /** Never aborts: only channels notice that the server is gone. */
  readonly lost: AbortSignal = new AbortController().signal;
  readonly #spec: HttpServerSpec;
  readonly #watchers = new Set<Emit>();
  readonly #channels = new Set<{ stop(): Promise<void> }>();
  #watched = false;
  #stopping: Promise<void> | undefined;

  constructor(name: string, spec: HttpServerSpec) {
    this.name = name;
    this.transport = spec.transport;
    this.address = {
      transport: spec.transport,
      url: new URL(spec.url),
      fetch: createServerFetch(spec),
      maxMessageBytes: spec.maxMessageBytes,
    };
    this.#spec = spec;
  }

  watch(emit: Emit): () => void {
    const { name: server, transport } = this;
    const reused = this.#watched ? ({ reused: true } as const) : {};
    emit({ type: "server.started", server, transport, target: shownUrl(this.#spec.url), ...reused });
    this.#watched = true;
    this.#watchers.add(emit);
    return () => void this.#watchers.delete(emit);
  }

  connect(emit: Emit, { between }: ConnectOptions = {}): ServerConnection {
    return new ChannelConnection({
      name: this.name,
      emit,
      open: (listener) => this.open(listener),
      hostLost: this.lost,
      hasPerRequestStream: this.transport === "shttp",
      ...(between === undefined ? {} : { between }),
    });
  }

  open(listener: ChannelListener): Channel {
    const channel = openHttpChannel(this.name, this.address, listener);
    const exchange = { stop: () => channel.close() };
    this.#channels.add(exchange);
    return {
      send: (wire, options) => channel.send(wire, options),
      close: () => {
        this.#channels.delete(exchange);
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
    await Promise.all([...this.#channels].map((exchange) => exchange.stop()));
    const durationMs = performance.now() - started;
    for (const emit of this.#watchers)
      emit({ type: "server.stopped", server: this.name, by: "disconnect", durationMs });
    this.#watchers.clear();
  }
}

/** The older transport connects at once, to get the address for messages; Streamable HTTP with the first message. */
function openHttpChannel(server: string, address: HttpAddress, listener: ChannelListener): Channel {
  return address.transport === "sse"
    ? new SseChannel(server, address, listener)
    : new StreamableChannel(server, address, listener);
}
