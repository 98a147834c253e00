import { messageOf } from "../../core/errors/error.ts";
import type { ValidateSchema } from "../../core/checks/tool-result.ts";
import type { MockServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import {
  type Channel,
  type ChannelListener,
  type ConnectOptions,
  ServerConnection,
  type ServerHost,
} from "../connections/host.ts";
import { requestCancelled } from "../filters/filter-chain.ts";
import {
  cancelledId,
  errorAnswer,
  errorCodes,
  type MessageId,
  parseMessage,
  type Request,
  requestOf,
  type WireMessage,
} from "../messages/json-rpc.ts";
import { invalidLineText, OutputRecorder } from "../stdio/output-recorder.ts";
import { MockServer } from "./mock-server.ts";

/** Creates a mock server in this process; `validateSchema` is for `matchSchema`. Throws McpvalsError `task/pattern` for an invalid regular expression. */
export function openMockHost(
  name: string,
  spec: MockServerSpec,
  { validateSchema }: { readonly validateSchema: ValidateSchema },
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
  readonly #channels = new Set<MockChannel>();
  readonly #watchers = new Map<Emit, OutputRecorder>();
  #firstInvalidLine: string | undefined;
  #isWatched = false;
  #isStopped = false;

  constructor(name: string, server: MockServer) {
    this.name = name;
    this.#server = server;
  }

  watch(emit: Emit): () => void {
    const { name: server, transport } = this;
    const reused = this.#isWatched ? ({ reused: true } as const) : {};
    emit({ type: "server.started", server, transport, target: "written answers", ...reused });
    this.#isWatched = true;
    this.#watchers.set(emit, new OutputRecorder(server, emit));
    return () => {
      this.#watchers.get(emit)?.finish();
      this.#watchers.delete(emit);
    };
  }

  connect(emit: Emit, { filters }: ConnectOptions = {}): ServerConnection {
    return new ServerConnection({
      name: this.name,
      emit,
      open: (listener) => this.#open(listener, false),
      hostLost: this.lost,
      evidence: () =>
        this.#firstInvalidLine === undefined ? {} : { firstInvalidLine: this.#firstInvalidLine },
      filters,
    });
  }

  open(listener: ChannelListener): Channel {
    return this.#open(listener, true);
  }

  stop(): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    this.#isStopped = true;
    for (const channel of this.#channels) channel.finish();
    for (const [emit, output] of this.#watchers) {
      output.finish();
      emit({ type: "server.stopped", server: this.name, by: "disconnect", durationMs: 0 });
    }
    this.#watchers.clear();
    return Promise.resolve();
  }

  /** `passesInvalid`: answers that are not messages go to the client too, with an error as their message for the record. */
  #open(listener: ChannelListener, passesInvalid: boolean): Channel {
    const deliver = (id: MessageId, text: string): void => {
      const line = Buffer.from(text, "utf8");
      const wire = parseMessage(line);
      if (wire !== undefined) return listener.onMessage(wire);
      this.#firstInvalidLine ??= invalidLineText(line);
      for (const output of this.#watchers.values()) output.invalidLine(line);
      const why = "the mock's answer is no JSON-RPC message, on purpose";
      if (passesInvalid) listener.onMessage({ ...errorAnswer(id, errorCodes.parse, why), text });
    };
    const channel = new MockChannel(this.#server, deliver, () => {
      if (this.#channels.delete(channel) && this.#isStopped) listener.onClosed();
    });
    this.#channels.add(channel);
    if (this.#isStopped) queueMicrotask(() => channel.finish());
    return channel;
  }
}

/** One client's channel to a mock. */
class MockChannel implements Channel {
  readonly #server: MockServer;
  readonly #deliver: (id: MessageId, text: string) => void;
  readonly #onEnd: () => void;
  readonly #waiting = new Map<MessageId, AbortController>();
  #isClosed = false;

  constructor(server: MockServer, deliver: (id: MessageId, text: string) => void, onEnd: () => void) {
    this.#server = server;
    this.#deliver = deliver;
    this.#onEnd = onEnd;
  }

  send({ message }: WireMessage): Promise<void> {
    if (this.#isClosed) return Promise.reject(new Error("the client has closed its channel"));
    const request = requestOf(message);
    const cancelled = cancelledId(message);
    if (request !== undefined) void this.#answer(request);
    if (cancelled !== undefined) this.#waiting.get(cancelled)?.abort(requestCancelled);
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.finish();
    return Promise.resolve();
  }

  finish(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const controller of this.#waiting.values()) controller.abort(requestCancelled);
    this.#waiting.clear();
    this.#onEnd();
  }

  async #answer(request: Request): Promise<void> {
    const { id } = request;
    const controller = new AbortController();
    const { signal } = controller;
    this.#waiting.set(id, controller);
    const answer = await this.#server.answer(request, signal).catch((error: unknown) => {
      const why = messageOf(error);
      return errorAnswer(id, errorCodes.internal, `the mock could not answer: ${why}`).text;
    });
    if (this.#waiting.get(id) === controller) this.#waiting.delete(id);
    if (answer !== undefined && !signal.aborted) this.#deliver(id, answer);
  }
}
