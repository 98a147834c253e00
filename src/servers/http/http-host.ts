import { McpvalsError } from "../../core/errors/error.ts";
import type { HttpServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import {
  type Channel,
  type ChannelListener,
  type ConnectOptions,
  type HttpAddress,
  ServerConnection,
  type ServerHost,
} from "../connections/host.ts";
import { SseChannel, StreamableChannel } from "./http-channels.ts";
import { shownUrl } from "./http-errors.ts";
import { createServerFetch } from "./server-fetch.ts";

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
  readonly #watchers = new Set<Emit>();
  readonly #channels = new Set<Channel>();
  #isWatched = false;
  #stopping: Promise<void> | undefined;

  constructor(name: string, spec: HttpServerSpec) {
    const { transport, url, maxMessageBytes } = spec;
    this.name = name;
    this.transport = transport;
    this.address = { transport, url: new URL(url), fetch: createServerFetch(spec), maxMessageBytes };
  }

  watch(emit: Emit): () => void {
    const { name: server, transport, address } = this;
    const reused = this.#isWatched ? ({ reused: true } as const) : {};
    emit({ type: "server.started", server, transport, target: shownUrl(address.url), ...reused });
    this.#isWatched = true;
    this.#watchers.add(emit);
    return () => void this.#watchers.delete(emit);
  }

  connect(emit: Emit, { filters }: ConnectOptions = {}): ServerConnection {
    return new ServerConnection({
      name: this.name,
      emit,
      open: (listener) => this.open(listener),
      hostLost: this.lost,
      hasPerRequestStream: this.transport === "shttp",
      filters,
    });
  }

  /** The older transport connects at once, to get the address for messages; Streamable HTTP with the first message. */
  open(listener: ChannelListener): Channel {
    const Kind = this.transport === "sse" ? SseChannel : StreamableChannel;
    const channel = new Kind(this.name, this.address, listener);
    this.#channels.add(channel);
    return {
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
    const durationMs = performance.now() - started;
    for (const emit of this.#watchers)
      emit({ type: "server.stopped", server: this.name, by: "disconnect", durationMs });
    this.#watchers.clear();
  }
}
