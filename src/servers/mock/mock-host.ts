import type { MockServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import type { ServerConnection } from "../connection.ts";
import { ChannelConnection } from "../hosts/channel-connection.ts";
import type { ConnectOptions, ServerHost } from "../hosts/host.ts";
import { OutputRecorder } from "../stdio/output-recorder.ts";
import { OutputTail } from "../stdio/output-tail.ts";
import type { Channel, ChannelListener } from "../wire.ts";
import type { ValidateSchema } from "./find-response.ts";
import { MockExchange } from "./mock-exchange.ts";
import { MockServer } from "./mock-server.ts";

export interface MockHostOptions {
  /** Validates arguments for `matchSchema`. */
  readonly validateSchema: ValidateSchema;
}

/**
 * Makes a server of written answers, in this process. Its state lives as long as the host. Throws McpvalsError
 * `task/pattern` for a regular expression that is none.
 */
export function openMockHost(
  name: string,
  spec: MockServerSpec,
  { validateSchema }: MockHostOptions,
): ServerHost {
  return new MockHost(name, new MockServer(name, spec.mock, validateSchema));
}

class MockHost implements ServerHost {
  readonly name: string;
  readonly transport = "mock";
  readonly address = undefined;
  /** Nothing can happen to it. */
  readonly lost = new AbortController().signal;
  readonly #server: MockServer;
  readonly #exchanges = new Set<MockExchange>();
  /** Who has it recorded, with what counts how much that is. */
  readonly #watchers = new Map<Emit, OutputRecorder>();
  readonly #tail = new OutputTail();
  #watched = false;
  #stopped = false;

  constructor(name: string, server: MockServer) {
    this.name = name;
    this.#server = server;
  }

  watch(emit: Emit): () => void {
    const { name: server, transport } = this;
    const reused = this.#watched ? { reused: true as const } : {};
    emit({ type: "server.started", server, transport, target: "written answers", ...reused });
    this.#watched = true;
    this.#watchers.set(emit, new OutputRecorder({ server, emit }));
    return () => {
      this.#watchers.get(emit)?.finish();
      this.#watchers.delete(emit);
    };
  }

  connect(emit: Emit, { between }: ConnectOptions = {}): ServerConnection {
    return new ChannelConnection({
      name: this.name,
      emit,
      open: (listener) => this.#exchange(listener, { passesInvalid: false }),
      hostLost: this.lost,
      evidence: () => {
        const { firstInvalidLine } = this.#tail;
        return firstInvalidLine === undefined ? {} : { firstInvalidLine };
      },
      ...(between === undefined ? {} : { between }),
    });
  }

  open(listener: ChannelListener): Channel {
    return this.#exchange(listener, { passesInvalid: true });
  }

  stop(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    this.#stopped = true;
    for (const exchange of this.#exchanges) exchange.finish();
    for (const [emit, output] of this.#watchers) {
      output.finish();
      emit({ type: "server.stopped", server: this.name, by: "disconnect", durationMs: 0 });
    }
    this.#watchers.clear();
    return Promise.resolve();
  }

  #exchange(listener: ChannelListener, { passesInvalid }: { readonly passesInvalid: boolean }): Channel {
    const exchange = new MockExchange({
      server: this.#server,
      listener,
      passesInvalid,
      onInvalid: (text) => this.#takeInvalid(Buffer.from(text, "utf8")),
      onEnd: () => this.#exchanges.delete(exchange),
    });
    this.#exchanges.add(exchange);
    if (this.#stopped) queueMicrotask(() => exchange.finish());
    return exchange;
  }

  #takeInvalid(line: Buffer): void {
    this.#tail.invalidLine(line);
    for (const output of this.#watchers.values()) output.invalidLine(line);
  }
}
