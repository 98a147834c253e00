import type { RequestId } from "@modelcontextprotocol/client";
import type { MockServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import type {
  Channel,
  ChannelListener,
  ConnectOptions,
  ServerConnection,
  ServerHost,
} from "../connections/host.ts";
import { requestCancelled } from "../filters/filter-chain.ts";
import {
  errorCodes,
  cancelledId,
  parseMessage,
  type Request,
  requestOf,
  type WireMessage,
} from "../messages/json-rpc.ts";
import { ChannelConnection } from "../connections/transports.ts";
import { OutputRecorder, OutputTail } from "../stdio/output-recorder.ts";
import type { ValidateSchema } from "../../core/checks/schema-check.ts";
import { MockServer } from "./mock-server.ts";

export interface MockHostOptions {
  /** Validates arguments for `matchSchema`. */
  readonly validateSchema: ValidateSchema;
}

/** Creates a mock server in this process. Throws McpvalsError `task/pattern` for an invalid regular expression. */
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
  /** Never aborts. */
  readonly lost = new AbortController().signal;
  readonly #server: MockServer;
  readonly #exchanges = new Set<MockExchange>();
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

export interface MockExchangeOptions {
  readonly server: MockServer;
  readonly listener: ChannelListener;
  /** Called for every answer that is not a message. */
  readonly onInvalid: (text: string) => void;
  /** Whether such an answer goes to the client, with an error as its message for the record. */
  readonly passesInvalid: boolean;
  readonly onEnd: () => void;
}

/** One client's channel to a mock. */
class MockExchange implements Channel {
  readonly #options: MockExchangeOptions;
  readonly #waiting = new Map<RequestId, AbortController>();
  #closed = false;

  constructor(options: MockExchangeOptions) {
    this.#options = options;
  }

  send({ message }: WireMessage): Promise<void> {
    if (this.#closed) return Promise.reject(new Error("the client has closed its channel"));
    const request = requestOf(message);
    const cancelled = cancelledId(message);
    if (request !== undefined) void this.#answer(request);
    if (cancelled !== undefined) this.#waiting.get(cancelled)?.abort(requestCancelled);
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#end();
    return Promise.resolve();
  }

  /** Ends the channel from the side of the server. */
  finish(): void {
    if (this.#end()) this.#options.listener.onClosed();
  }

  #end(): boolean {
    if (this.#closed) return false;
    this.#closed = true;
    for (const controller of this.#waiting.values()) controller.abort(requestCancelled);
    this.#waiting.clear();
    this.#options.onEnd();
    return true;
  }

  async #answer(request: Request): Promise<void> {
    const controller = new AbortController();
    const { signal } = controller;
    this.#waiting.set(request.id, controller);
    const answer = await this.#options.server.answer(request, signal).catch((error: unknown) => {
      if (signal.aborted) return undefined;
      return brokenAnswer(request.id, error);
    });
    if (this.#waiting.get(request.id) === controller) this.#waiting.delete(request.id);
    if (answer !== undefined && !signal.aborted && !this.#closed) this.#deliver(request.id, answer);
  }

  #deliver(id: RequestId, text: string): void {
    const { listener, onInvalid, passesInvalid } = this.#options;
    const wire = parseMessage(Buffer.from(text, "utf8"));
    if (wire !== undefined) return listener.onMessage(wire);
    onInvalid(text);
    if (passesInvalid) listener.onMessage({ message: malformedStandIn(id), text });
  }
}

/** The message for the record of an answer that is not one; its text is recorded beside it. */
function malformedStandIn(id: RequestId): WireMessage["message"] {
  const message = "the mock's answer is no JSON-RPC message, on purpose";
  return { jsonrpc: "2.0", id, error: { code: errorCodes.parse, message } };
}

function brokenAnswer(id: RequestId, error: unknown): string {
  const message = `the mock could not answer: ${error instanceof Error ? error.message : String(error)}`;
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: errorCodes.internal, message } });
}
