import type {
  JSONRPCMessage,
  RequestId,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/client";
import { McpvalsError } from "../../base/error.ts";
import { asObject, isJsonObject, withoutUndefined, type Json } from "../../base/json.ts";
import type { HttpServerSpec, ServerSpec } from "../../model/server.ts";
import { readJsonText } from "../../base/read-json.ts";
import { shortened } from "../../base/visible-text.ts";
import type { Emit, EventBody } from "../../model/event.ts";
import { settlesWithin } from "../../process/deadline.ts";
import { closed } from "../../process/process-tree.ts";
import { TextTail, WholeLines } from "../../process/program-output.ts";
import type { ManagedProcess, ProcessExit, StopOptions } from "../../process/spawn.ts";
import type { LimitChange } from "../../process/adaptive-limit.ts";
import type { FilterChain, FilterContext } from "../filters/filter-chain.ts";
import type { RateLimiter } from "../filters/filters.ts";
import {
  createReceiveLimits,
  malformationOf,
  messageJson,
  recordedMessage,
  type WireMessage,
  wireMessage,
} from "../messages/json-rpc.ts";
import { errorCodes } from "../../model/error-codes.ts";
import { modernVersion } from "../../model/mcp-versions.ts";

/**
 * Owns one started or reached server for as long as it serves: the process, where there is one, and every client's
 * channel to it. All clients of a program share its pipes; a server with an address has a session for each client.
 */
export interface ServerHost {
  readonly name: string;
  readonly transport: ServerSpec["transport"];
  /** Whether it has a process of ours, so that its end is noticed at once. */
  readonly isProgram: boolean;
  /** Aborts with an McpvalsError when the server is lost without being stopped. */
  readonly lost: AbortSignal;
  /**
   * Records what happens to the server as a whole in a trial, from `server.started` on, until the result is called. A server
   * that was there before gets `reused`.
   */
  watch(emit: Emit): () => void;
  /** A recorded connection for a client in this process. Ending it does not end the server. */
  connect(emit: Emit, options?: ConnectOptions): ServerConnection;
  /** A channel for a client outside this process; nothing of it is recorded here. */
  open(listener: ChannelListener): Channel;
  /** Holds requests of all its clients; absent: there is no limit. */
  readonly limiter?: RateLimiter;
  /** How to reach the server itself, for one that has an address. */
  readonly address: HttpAddress | undefined;
  /** By which its latencies are measured, in milliseconds; absent: by the time of the system. */
  readonly now?: () => number;
  /** Ends the server with its whole process tree, and every channel. Never throws; afterwards nothing is recorded. */
  stop(options?: StopOptions): Promise<void>;
}

/**
 * Whether the loss of a server that had completed its handshake is its own fault: it crashed, closed the connection, or sent
 * something that no client can read. An access token that is no longer accepted is not.
 */
export function isServerFault(loss: unknown): loss is McpvalsError {
  return (
    loss instanceof McpvalsError && loss.code.startsWith("server/") && loss.code !== "server/unauthorized"
  );
}

export interface ConnectOptions {
  /**
   * Whether it is an agent's, which gets everything that is meant for all clients. Other clients in this process get it only
   * while they wait for an answer or are alone, so that it is not recorded twice. Default: false.
   */
  readonly agent?: boolean;
  /** Filters between the client and the server; the record has what the client sends and gets. */
  readonly filters?: FilterChain | undefined;
  /** Called with the wait of a request that the server's rate limit holds, which takes none of the client's time. */
  readonly onHeld?: ((waiting: Promise<void>) => void) | undefined;
}

/** Where a server with an address is, and how requests get there. */
export interface HttpAddress {
  readonly transport: HttpServerSpec["transport"];
  readonly url: URL;
  /** Adds the server's headers and its access token, and respects its rate limit. */
  readonly send: SendToServer;
  /** Longest message accepted from the server, in bytes. */
  readonly maxMessageBytes: number;
}

/** A request over HTTP. */
export interface HttpRequest {
  readonly method: string;
  /** Of names that differ in case only the last one counts. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
  /** The server may get it twice: it is sent again when a kept connection turns out to be closed. */
  readonly isRepeatable?: boolean;
}

/** A response over HTTP. Either all of its body is to be read, or it has to be cancelled. */
export interface HttpResponse {
  readonly status: number;
  /** The reason phrase. */
  readonly statusText: string;
  /** Whether the status says that the request succeeded. */
  readonly ok: boolean;
  /** By lower-case name; several of a name are joined with commas. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Throws while it is read when the connection breaks. */
  readonly body: AsyncIterable<Uint8Array>;
  cancel(): void;
}

/** Rejects when there is no response. */
export type SendRequest = (url: URL, request: HttpRequest) => Promise<HttpResponse>;

/** The same to a server, whose rate limit may hold the request back: then `notes` are called. */
export type SendToServer = (url: URL, request: HttpRequest, notes?: RateLimitNotes) => Promise<HttpResponse>;

/** What is to be recorded of a request that the rate limit of a server holds back. */
export interface RateLimitNotes {
  /** The request waits. */
  readonly onHeld?: (waiting: Promise<void>) => void;
  /** The server refused it as one too many; it is sent again. */
  readonly onRefused?: (response: HttpResponse) => void;
  readonly onLimitChanged?: (change: LimitChange & { readonly reason: string }) => void;
}

/** Records such a request as `request.held`, `http.response` and `server.limit_changed`. */
export function rateLimitNotes(
  { emit, onHeld, ...who }: FilterContext,
  method: string,
  requestIds: readonly (string | number)[],
): RateLimitNotes {
  return {
    onHeld(waiting) {
      onHeld?.(waiting);
      const started = performance.now();
      const record = (): void => {
        const heldMs = performance.now() - started;
        for (const id of requestIds) emit({ type: "request.held", ...who, id, heldMs });
      };
      waiting.then(record, record);
    },
    onRefused: ({ status }) => void emit({ type: "http.response", ...who, method, status, requestIds }),
    onLimitChanged: (change) => void emit({ type: "server.limit_changed", ...who, ...change }),
  };
}

export interface Evidence {
  /** The end of the server's stderr. */
  readonly stderrTail?: string;
  /** The first line on stdout that was not a message. */
  readonly firstInvalidLine?: string;
  /** Where nothing answers yet, of a program that serves at a URL. */
  readonly silentUrl?: string;
  /** The error status of the last HTTP request, if it had one. */
  readonly httpFailure?: McpvalsError;
}

/** The error for a server that was lost before it had answered `step`. */
export function lostAtStart({ code, message, details }: McpvalsError, step: string): McpvalsError {
  // A variable that is missing is a usual reason to exit at the start.
  const environment =
    code === "server/exited"
      ? "It gets only a small safe environment: pass more variables with `env`, `inheritEnv` or --env."
      : "";
  const hint = `${details.hint ?? ""} ${environment}`.trim();
  return new McpvalsError(code, `${message} before it had answered ${step}`, {
    ...details,
    ...(hint === "" ? {} : { hint }),
  });
}

export interface SendOptions {
  /** Further HTTP headers of a request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Aborts when the answer is not needed any more: over HTTP this ends the request. */
  readonly signal?: AbortSignal | undefined;
}

/** One client's channel to a server. */
export interface Channel {
  /** The id that a server at an address gave the session. */
  readonly session?: string | undefined;
  /** Settles when the message has been sent; rejects with McpvalsError when the server is gone. */
  send(wire: WireMessage, options?: SendOptions): Promise<void>;
  /** Closes the channel; the server may go on. Nothing is received afterwards. Never throws. */
  close(): Promise<void>;
}

/** Receives what a server sends to one client. */
export interface ChannelListener {
  onMessage(wire: WireMessage): void;
  /**
   * The server closed the channel, or broke it. Called at most once; with the reason, where it concerns this channel and not
   * the host.
   */
  onClosed(reason?: McpvalsError): void;
  /** Called for each HTTP response, before its messages. */
  onResponse?(response: HttpResponseInfo): void;
  /** Gives what records a request over HTTP that is held back. */
  rateLimitNotes?(method: string, requestIds: readonly (string | number)[]): RateLimitNotes;
  /**
   * The HTTP response to a request has no answer in it. Without this method the client gets a JSON-RPC error in place of the
   * answer.
   */
  onNoAnswer?(request: WireMessage, failure: HttpNoAnswer): void;
}

export interface HttpResponseInfo {
  readonly method: string;
  readonly status: number;
  /** Ids of the JSON-RPC requests that it responds to. */
  readonly requestIds: readonly (string | number)[];
}

/** Whether a response says that there is no answer in it, whatever its body is. */
export function isAccepted({ status }: { readonly status: number }): boolean {
  return status === 202 || status === 204;
}

/** An HTTP response that has no answer to the request in it. */
export class HttpNoAnswer extends Error {
  readonly status: number;
  /** What came instead of an answer; empty for an event stream. */
  readonly body: string;
  /** The error for a status that is one; undefined for other responses. */
  readonly statusError: McpvalsError | undefined;
  /** Whether it says that it succeeded, with a content that no MCP server sends, such as HTML. */
  readonly isForeign: boolean;

  constructor(
    message: string,
    options: Pick<HttpNoAnswer, "status" | "body" | "statusError"> & { readonly isForeign?: boolean },
  ) {
    super(message);
    this.isForeign = options.isForeign ?? false;
    this.status = options.status;
    this.body = options.body;
    this.statusError = options.statusError;
  }
}

export interface ConnectionOptions {
  readonly name: string;
  readonly emit: Emit;
  readonly open: (listener: ChannelListener) => Channel;
  /** Aborts when the server itself is lost. */
  readonly hostLost: AbortSignal;
  readonly evidence?: () => Evidence;
  /** Whether each request has an HTTP response of its own, by whose end it is cancelled. */
  readonly hasPerRequestStream?: boolean;
  readonly filters?: FilterChain | undefined;
  readonly onHeld?: ((waiting: Promise<void>) => void) | undefined;
}

/** The `data`, known by identity, of errors in place of unusable answers. */
export const unusableAnswer: Readonly<Record<string, never>> = Object.freeze({});

/** Replaces the `data` of an error of the server, and holds the error as it came: the SDK rewrites some errors. */
export class OriginalError {
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };

  constructor(error: OriginalError["error"]) {
    this.error = error;
  }
}

/** Requests of the handshake: the SDK reads their errors itself. */
const handshakeMethods = ["initialize", "server/discover"];
/** Requests whose answers are evidence; for others, a malformed answer does not matter. */
const evidenceMethods = ["tools/call", "resources/read", "prompts/get"];

/**
 * A recorded connection to a server, for a client in this process: a channel of a host as a transport of the SDK, which the client
 * has to start. Every message is recorded as `mcp.message`, unchanged, before it is passed on.
 *
 * Every request is settled: the SDK's client drops answers of the wrong shape and accepts malformed ones, so these, and HTTP
 * responses without an answer, become JSON-RPC errors for the client. Errors of the server get an {@link OriginalError}, except
 * those of the handshake.
 */
export class ServerConnection implements Transport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: JSONRPCMessage) => void) | undefined;
  readonly name: string;
  readonly hasPerRequestStream: boolean;
  readonly #options: ConnectionOptions;
  readonly #problemOf: ReturnType<typeof createReceiveLimits>;
  readonly #lost = new AbortController();
  readonly #follow = (): void => this.#lose(this.#options.hostLost.reason);
  /** Methods of the pending requests. */
  readonly #pending = new Map<RequestId, string>();
  #httpFailure: McpvalsError | undefined;
  #channel: Channel | undefined;
  /** The server refused `initialize` because it speaks only newer versions of MCP. */
  #isRefused = false;
  #isClosed = false;
  #isStopping = false;
  #isStopped = false;

  constructor(options: ConnectionOptions) {
    const { name, hostLost, hasPerRequestStream = false } = options;
    this.name = name;
    this.hasPerRequestStream = hasPerRequestStream;
    this.#options = options;
    this.#problemOf = createReceiveLimits(name);
    if (hostLost.aborted) this.#follow();
    hostLost.addEventListener("abort", this.#follow, { once: true });
  }

  /** Aborts with an McpvalsError when the connection is lost without being stopped. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  get #context(): FilterContext {
    const { onHeld } = this.#options;
    return {
      server: this.name,
      emit: (event) => this.#emit(event),
      ...(onHeld === undefined ? {} : { onHeld }),
    };
  }

  /** What is known about why things go wrong. */
  evidence(): Evidence {
    const httpFailure = this.#httpFailure;
    return { ...this.#options.evidence?.(), ...(httpFailure === undefined ? {} : { httpFailure }) };
  }

  start(): Promise<void> {
    if (this.#isClosed) return Promise.reject(new Error("the channel was closed before it was opened"));
    this.#channel ??= this.#options.open({
      onMessage: (wire) => this.#receive(wire),
      onClosed: (reason) => {
        if (reason !== undefined) this.#lose(reason);
        this.#end();
      },
      onResponse: (response) => this.#emit({ type: "http.response", server: this.name, ...response }),
      rateLimitNotes: (method, requestIds) => rateLimitNotes(this.#context, method, requestIds),
      onNoAnswer: ({ message }, failure) => this.#noAnswer(message, failure),
    });
    return Promise.resolve();
  }

  /** Settles when the server has been sent the message, or a filter keeps it back. */
  async send(message: JSONRPCMessage, options: TransportSendOptions = {}): Promise<void> {
    const { filters } = this.#options;
    const record = (): void => this.#record("client-to-server", { message: messageJson(message) });
    if ("method" in message && "id" in message) this.#pending.set(message.id, message.method);
    const wire = wireMessage(message);
    if (filters === undefined) {
      const sending = this.#send(wire, options);
      // Recorded while the server works: what it answers is read later.
      record();
      return sending;
    }
    record();
    await filters.fromClient(wire, (decision) => {
      if (decision.kind === "pass") return this.#send(decision.wire, options);
      if (decision.kind === "answer") this.#deliver(decision.wire);
      return decision.kind === "disconnect" ? this.close() : undefined;
    });
  }

  /** Does nothing after a refusal that {@link takeOver} answers. */
  async close(): Promise<void> {
    if (this.#isRefused) return;
    this.#end();
    await this.#channel?.close();
  }

  /** Whether `initialize` was refused for a newer version of MCP; then another client can use the connection. */
  takeOver(): boolean {
    const isRefused = this.#isRefused;
    this.#isRefused = false;
    Object.assign(this, { onclose: undefined, onerror: undefined, onmessage: undefined });
    return isRefused;
  }

  /** Ends the connection. Never throws; nothing is recorded afterwards. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#isRefused = false;
    this.#options.hostLost.removeEventListener("abort", this.#follow);
    await this.close();
    this.#isStopped = true;
  }

  async #send(wire: WireMessage, { headers, requestSignal: signal }: TransportSendOptions): Promise<void> {
    if (this.#isClosed || this.#channel === undefined) throw new Error("the channel to the server is closed");
    try {
      await this.#channel.send(wire, { headers, signal });
    } catch (error) {
      if (error instanceof HttpNoAnswer) this.#httpFailure = error.statusError;
      throw error;
    }
  }

  #receive(wire: WireMessage): void {
    if (this.#isClosed) return;
    const { filters } = this.#options;
    if (!("method" in wire.message)) this.#httpFailure = undefined;
    if (filters === undefined) return this.#deliver(wire);
    const passing = filters.fromServer(wire, (decision) => {
      if (decision.kind === "pass" && decision.before !== undefined) this.#deliver(decision.before);
      if (decision.kind === "pass" || decision.kind === "answer") return this.#deliver(decision.wire);
      return decision.kind === "disconnect" ? this.close() : undefined;
    });
    passing.catch((error: unknown) =>
      this.onerror?.(error instanceof Error ? error : new Error(String(error))),
    );
  }

  /** Records a message and gives it to the client. One beyond the limits ends this connection; the server may go on. */
  #deliver(wire: WireMessage): void {
    const { message } = wire;
    const problem = this.#problemOf(message);
    if (problem !== undefined) {
      this.#lose(problem);
      return void this.close();
    }
    this.#record("server-to-client", recordedMessage(wire));
    this.onmessage?.(this.#checked(message));
  }

  #checked(message: JSONRPCMessage): JSONRPCMessage {
    if ("method" in message || message.id === undefined) return message;
    const { id } = message;
    const method = this.#pending.get(id) ?? "";
    this.#pending.delete(id);
    if (method === "initialize") this.#isRefused = wantsModern(messageJson(message));
    const problem = answerProblem(message, method);
    if (problem !== undefined) return failure(id, problem, unusableAnswer);
    if (!("error" in message) || method === "" || handshakeMethods.includes(method)) return message;
    return { ...message, error: { ...message.error, data: new OriginalError(message.error) } };
  }

  #noAnswer(message: JSONRPCMessage, reason: HttpNoAnswer): void {
    // The answer may come over another stream.
    if (isAccepted(reason) || !("id" in message) || message.id === undefined) return;
    const { id } = message;
    this.#httpFailure = reason.statusError;
    // Over HTTP the refusal may be the body of an error.
    if (this.#pending.get(id) === "initialize")
      this.#isRefused = wantsModern(readJsonText(reason.body).value);
    if (this.#pending.delete(id)) this.onmessage?.(failure(id, reason.message, reason));
  }

  #record(
    direction: "client-to-server" | "server-to-client",
    content: { readonly message: Json; readonly raw?: string; readonly malformed?: string },
  ): void {
    this.#emit({ type: "mcp.message", server: this.name, direction, ...content });
  }

  #emit(event: Parameters<Emit>[0]): number {
    return this.#isStopped ? 0 : this.#options.emit(event);
  }

  #end(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.filters?.close();
    this.onclose?.();
  }

  #lose(reason: unknown): void {
    if (!this.#isStopping) this.#lost.abort(reason);
  }
}

/** Whether a message says that another version of MCP is needed, which may be the modern one. */
export function wantsModern(message: Json | undefined): boolean {
  const { code, data } = asObject(asObject(message)["error"]);
  const { supported } = asObject(data);
  return (
    code === errorCodes.unsupportedVersion && (!Array.isArray(supported) || supported.includes(modernVersion))
  );
}

/** Why the SDK's client would drop an answer silently, or why it is malformed; undefined for a valid one. */
function answerProblem(answer: JSONRPCMessage, method: string): string | undefined {
  const malformation = evidenceMethods.includes(method) ? malformationOf(answer) : undefined;
  if (malformation !== undefined) return `the answer is malformed: ${malformation}`;
  const kind = "error" in answer && answer.error !== null ? "error" : "result";
  const value = asObject(messageJson(answer))[kind] as Json | undefined;
  if (!isJsonObject(value)) return `the ${kind} is not an object: ${excerpt(value)}`;
  const others = Object.keys(answer).filter((key) => !["jsonrpc", "id", kind].includes(key));
  if (others.length > 0)
    return `the answer has other keys than jsonrpc, id and ${kind}: ${others.join(", ")}`;
  const { _meta: meta, code, message } = value;
  if (kind === "result" && meta !== undefined && !isJsonObject(meta))
    return `_meta is not an object: ${excerpt(meta)}`;
  if (kind === "error" && !(Number.isInteger(code) && typeof message === "string"))
    return `the error has no code and message: ${excerpt(value)}`;
  return undefined;
}

function excerpt(value: Json | undefined): string {
  return shortened(value === undefined ? "nothing" : JSON.stringify(value), 200);
}

function failure(id: RequestId, message: string, data: unknown): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: errorCodes.internal, message, data } };
}

type Started = Extract<EventBody, { type: "server.started" }>;
type Stopped = Extract<EventBody, { type: "server.stopped" }>;

/** Maximum number of recorded lines on stdout that are not messages. */
const invalidLineLimit = 50;
/** Recorded length of a line on stdout that is not a message, in characters. */
const invalidLineLength = 2000;

/** Maximum delay between the exit of a process and the end of its output, in either order, in milliseconds. */
export const settleMs = 250;

/** A process whose pipe or connection has ended counts as running when it has not exited after this time, in milliseconds. */
export const exitMs = 5000;

/** Records a server as a whole for each trial that watches it: its start, its output besides MCP, and its end. */
export class Watchers {
  readonly #server: string;
  readonly #started: Omit<Started, "type" | "server" | "reused">;
  readonly #outputs = new Map<Emit, OutputRecorder>();
  /** Output before the first watcher, which receives it. */
  readonly #early: EventBody[] = [];
  readonly #firstOutput: OutputRecorder;
  readonly #stderrTail = new TextTail();
  readonly #stdoutTail = new TextTail();
  #firstEmit: Emit = (event) => this.#early.push(event);
  #isWatched = false;
  #firstInvalidLine: string | undefined;

  constructor(server: string, started: Omit<Started, "type" | "server" | "reused">) {
    this.#server = server;
    this.#started = started;
    this.#firstOutput = new OutputRecorder(server, (event) => this.#firstEmit(event));
  }

  /** Records until the returned function is called; as `reused` from the second watcher on. */
  add(emit: Emit): () => void {
    const isFirst = !this.#isWatched;
    const output = isFirst ? this.#firstOutput : new OutputRecorder(this.#server, emit);
    const reused = isFirst ? {} : ({ reused: true } as const);
    emit({ type: "server.started", server: this.#server, ...this.#started, ...reused });
    this.#isWatched = true;
    if (isFirst) {
      this.#firstEmit = emit;
      for (const event of this.#early.splice(0)) emit(event);
    }
    this.#outputs.set(emit, output);
    return () => {
      if (this.#outputs.delete(emit)) output.finish();
    };
  }

  /** Keeps the end of stderr as evidence, and records it if `isRecorded`. */
  stderr(chunk: Buffer, isRecorded: boolean): void {
    this.#stderrTail.push(chunk);
    if (isRecorded) for (const output of this.#current()) output.stderr(chunk);
  }

  /** Records stdout of a program that does not send its messages there. */
  stdout(chunk: Buffer): void {
    this.#stdoutTail.push(chunk);
    for (const output of this.#current()) output.stdout(chunk);
  }

  /** Records a line on stdout that is not a message. */
  invalidLine(line: Buffer): void {
    this.#firstInvalidLine ??= invalidLineText(line);
    for (const output of this.#current()) output.invalidLine(line);
  }

  evidence(): Evidence {
    const stderrTail = this.#stderrTail.text ?? this.#stdoutTail.text;
    return withoutUndefined({ stderrTail, firstInvalidLine: this.#firstInvalidLine });
  }

  /** Records an event after all output so far. */
  emit(event: EventBody): void {
    for (const [emit, output] of this.#outputs) {
      output.flush();
      emit(event);
    }
  }

  /**
   * Records the exit of the server's process, after everything that it wrote. Returns how it ended, as the end of a sentence, unless it was
   * expected to.
   */
  async exited(
    { exitCode, signal }: ProcessExit,
    process: Pick<ManagedProcess, "stdout" | "stderr"> & { readonly brokenLimit?: string | undefined },
    isExpected: () => Promise<boolean>,
  ): Promise<string | undefined> {
    await settlesWithin(Promise.all([closed(process.stdout), closed(process.stderr)]), settleMs);
    const expected = await isExpected();
    const limit = process.brokenLimit;
    this.emit({
      type: "server.exited",
      server: this.#server,
      exitCode,
      signal,
      expected,
      ...withoutUndefined({ limit }),
    });
    if (expected) return undefined;
    if (limit !== undefined) return `broke a limit of its sandbox: ${limit}`;
    return signal === null ? `exited with code ${exitCode}` : `was ended by ${signal}`;
  }

  /** Records the end of the server; nothing is recorded afterwards. */
  stop(by: Stopped["by"], durationMs: number, survivors = 0): void {
    const left = survivors === 0 ? {} : { survivors };
    for (const [emit, output] of this.#outputs) {
      output.finish();
      emit({ type: "server.stopped", server: this.#server, by, durationMs, ...left });
    }
    this.#outputs.clear();
  }

  #current(): Iterable<OutputRecorder> {
    return this.#isWatched ? this.#outputs.values() : [this.#firstOutput];
  }
}

/** Records the output of a server besides MCP, up to a limit, and then only how much it is. */
class OutputRecorder {
  readonly #server: string;
  readonly #emit: Emit;
  readonly #stderr: WholeLines;
  readonly #stdout: WholeLines;
  #invalidLines = 0;
  #invalidOmitted = 0;

  constructor(server: string, emit: Emit) {
    this.#server = server;
    this.#emit = emit;
    this.#stderr = new WholeLines((text) => void emit({ type: "server.stderr", server, text }));
    this.#stdout = new WholeLines((text) => void emit({ type: "server.stdout", server, text }));
  }

  stderr(chunk: Buffer): void {
    this.#stderr.push(chunk);
  }

  stdout(chunk: Buffer): void {
    this.#stdout.push(chunk);
  }

  invalidLine(line: Buffer): void {
    this.#invalidLines += 1;
    if (this.#invalidLines > invalidLineLimit) this.#invalidOmitted += line.length + 1;
    else this.#emit({ type: "server.invalid_output", server: this.#server, text: invalidLineText(line) });
  }

  /** Records an unfinished line. */
  flush(): void {
    this.#stderr.flush();
    this.#stdout.flush();
  }

  /** Records the rest, and how much was omitted. */
  finish(): void {
    const omitted = { stderr: this.#stderr.finish(), stdout: this.#stdout.finish() + this.#invalidOmitted };
    this.#invalidOmitted = 0;
    for (const stream of ["stderr", "stdout"] as const) {
      const bytes = omitted[stream];
      if (bytes > 0) this.#emit({ type: "server.output_omitted", server: this.#server, stream, bytes });
    }
  }
}

/** The recorded text of a line on stdout that is not a message. */
export function invalidLineText(line: Buffer): string {
  // A character has at most four bytes.
  return shortened(line.toString("utf8", 0, invalidLineLength * 4), invalidLineLength);
}

/** What is thrown for a server's program that cannot be started: an error of ours then names the server. */
export function startFailure(name: string, error: unknown): unknown {
  if (!(error instanceof McpvalsError)) return error;
  const message = `server "${name}" could not be started: ${error.message}`;
  return new McpvalsError(error.code, message, error.details);
}
