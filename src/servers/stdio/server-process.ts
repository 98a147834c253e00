import { homedir } from "node:os";
import type { Readable, Writable } from "node:stream";
import { McpvalsError } from "../../core/errors/error.ts";
import type { ServerSpec, StdioServerSpec } from "../../core/formats/model.ts";
import { jsonExcess } from "../../core/formats/read-json.ts";
import type { Emit, EventBody } from "../../core/trace/events.ts";
import { settlesWithin } from "../../process/deadline.ts";
import { LineReader } from "../../process/program-output.ts";
import { type ManagedProcess, type ProcessExit, spawnProcess } from "../../process/spawn.ts";
import { closed } from "../../process/process-tree.ts";
import { listedPath } from "../../sandbox/mounts.ts";
import type { Channel, ChannelListener, Evidence } from "../connections/host.ts";
import { type Era, inOneLine, mayBeMessage, parseMessage, type WireMessage } from "../messages/json-rpc.ts";
import { deepestMessage, excessive, messageTooLarge } from "../messages/message-limits.ts";
import { type ClientOptions, Multiplexer } from "./multiplexer.ts";
import { OutputRecorder, OutputTail } from "./output-recorder.ts";

/** How long output may arrive after the process has ended, and the end after the output, in milliseconds. */
const settleMs = 250;

/**
 * Starts a server's program, as `startProgram` does. Throws McpvalsError `server/spawn-failed`, and `sandbox/unavailable`.
 */
export async function startServerProcess(name: string, spec: StdioServerSpec): Promise<ServerProcess> {
  try {
    return new ServerProcess(name, spec, await startProgram(spec));
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    throw new McpvalsError(
      error.code,
      `server "${name}" could not be started: ${error.message}`,
      error.details,
    );
  }
}

/** A record of the process. */
interface Watcher {
  readonly emit: Emit;
  readonly output: OutputRecorder;
}

/** A program that serves MCP over its pipes: the process, its clients and its watchers. */
export class ServerProcess {
  /** The era that it speaks; undefined before the first request. */
  era: Era | undefined;
  readonly #name: string;
  readonly #spec: StdioServerSpec;
  readonly #process: ServerProgram;
  readonly #pipe: MessagePipe;
  readonly #clients: Multiplexer;
  readonly #watchers = new Set<Watcher>();
  readonly #tail = new OutputTail();
  readonly #lost = new AbortController();
  readonly #ended: Promise<void>;
  /** Events before the first watcher, which gets them. */
  readonly #early: EventBody[] = [];
  readonly #firstOutput: OutputRecorder;
  #firstEmit: Emit = (event) => this.#early.push(event);
  #watched = false;
  #stopping: Promise<void> | undefined;

  constructor(name: string, spec: StdioServerSpec, process: ServerProgram) {
    this.#name = name;
    this.#spec = spec;
    this.#process = process;
    this.#firstOutput = new OutputRecorder({ server: name, emit: (event) => this.#firstEmit(event) });
    this.#clients = new Multiplexer((text) => this.#send(text));
    this.#pipe = new MessagePipe(process.stdin, process.stdout, {
      server: name,
      maxMessageBytes: spec.maxMessageBytes,
      onMessage: (wire) => this.#clients.receive(wire),
      onInvalidLine: (line) => this.#takeInvalidLine(line),
      onBroken: (error) => {
        if (this.#stopping === undefined) this.#lose(error);
      },
    });
    process.stderr.on("data", (chunk: Buffer) => this.#takeStderr(chunk));
    this.#ended = process.exited.then((exit) => this.#recordExit(exit));
    process.stdin.once("close", () => void this.#pipeClosed("stdin"));
    process.stdout.once("end", () => void this.#pipeClosed("stdout"));
  }

  /** Aborts with an McpvalsError when the process is lost without being stopped. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Records the process until the result is called. */
  watch(emit: Emit): () => void {
    const isFirst = !this.#watched;
    const output = isFirst ? this.#firstOutput : new OutputRecorder({ server: this.#name, emit });
    const watcher = { emit, output };
    const { command, args, sandbox } = this.#spec;
    emit({
      type: "server.started",
      server: this.#name,
      transport: "stdio",
      target: [command, ...args].join(" "),
      pid: this.#process.pid,
      ...(sandbox === undefined ? {} : { sandbox: sandbox.kind }),
      ...(isFirst ? {} : { reused: true }),
    });
    this.#watched = true;
    if (isFirst) {
      this.#firstEmit = emit;
      for (const event of this.#early.splice(0)) emit(event);
    }
    this.#watchers.add(watcher);
    return () => {
      if (this.#watchers.delete(watcher)) watcher.output.finish();
    };
  }

  /** Opens a channel for a client; the first one starts the reading of stdout. */
  open(listener: ChannelListener, options: ClientOptions): Channel {
    if (this.#pipe.closed) {
      queueMicrotask(() => listener.onClosed());
      return { send: () => Promise.reject(this.#gone()), close: () => Promise.resolve() };
    }
    const channel = this.#clients.open(listener, options);
    this.#pipe.start();
    return channel;
  }

  evidence(): Evidence {
    const { stderrTail, firstInvalidLine } = this.#tail;
    return {
      ...(stderrTail === undefined ? {} : { stderrTail }),
      ...(firstInvalidLine === undefined ? {} : { firstInvalidLine }),
    };
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const { by, durationMs } = await this.#process.stop();
    // A process that is stuck in the kernel outlives even SIGKILL.
    await settlesWithin(this.#ended, settleMs);
    this.#closeClients();
    for (const { output } of this.#watchers) output.finish();
    this.#announce({ type: "server.stopped", server: this.#name, by, durationMs });
    this.#watchers.clear();
  }

  #send(text: string): Promise<void> {
    return this.#pipe.closed ? Promise.reject(this.#gone()) : this.#pipe.send(text);
  }

  #takeStderr(chunk: Buffer): void {
    this.#tail.stderr(chunk);
    if (this.#spec.captureStderr === false) return;
    for (const output of this.#outputs()) output.stderr(chunk);
  }

  #takeInvalidLine(line: Buffer): void {
    this.#tail.invalidLine(line);
    for (const output of this.#outputs()) output.invalidLine(line);
  }

  #outputs(): readonly OutputRecorder[] {
    return this.#watched ? [...this.#watchers].map(({ output }) => output) : [this.#firstOutput];
  }

  #announce(event: EventBody): void {
    for (const { emit } of this.#watchers) emit(event);
  }

  async #recordExit({ exitCode, signal }: ProcessExit): Promise<void> {
    await this.#drain();
    const expected = await this.#wasEndedByUs(signal);
    for (const { output } of this.#watchers) output.flush();
    this.#announce({ type: "server.exited", server: this.#name, exitCode, signal, expected });
    if (expected) return;
    const limit = this.#process.brokenLimit;
    const end = signal === null ? `exited with code ${exitCode}` : `was ended by ${signal}`;
    const how = limit === undefined ? end : `broke a limit of its sandbox: ${limit}`;
    this.#lose(
      new McpvalsError("server/exited", `server "${this.#name}" ${how}`, {
        hint: "Its stderr usually says why; run the same command in a terminal.",
        ...this.#detail(),
      }),
    );
  }

  /** Not when it ended before its stdin was closed, nor when it was ended by a signal from elsewhere. */
  async #wasEndedByUs(signal: ProcessExit["signal"]): Promise<boolean> {
    if (this.#stopping === undefined) return false;
    const { by } = await this.#process.stop();
    return by !== "already-exited" && (by !== "stdin" || signal === null);
  }

  /** Everything that the process wrote is read before its end is reported. */
  async #drain(): Promise<void> {
    const { stdout, stderr } = this.#process;
    await settlesWithin(Promise.all([closed(stdout), closed(stderr)]), settleMs);
  }

  async #pipeClosed(pipe: "stdin" | "stdout"): Promise<void> {
    if ((await settlesWithin(this.#ended, settleMs * 2)) || this.#stopping !== undefined) return;
    this.#lose(
      new McpvalsError(
        "server/protocol-error",
        `server "${this.#name}" closed its ${pipe} but goes on running`,
        {
          hint: "An MCP server over stdio keeps both open until it ends.",
          ...this.#detail(),
        },
      ),
    );
  }

  #lose(error: McpvalsError): void {
    if (!this.#lost.signal.aborted) this.#lost.abort(error);
    this.#closeClients();
  }

  #closeClients(): void {
    this.#pipe.close();
    this.#clients.close();
  }

  #gone(): McpvalsError {
    const lost: unknown = this.#lost.signal.reason;
    if (lost instanceof McpvalsError) return lost;
    return new McpvalsError("server/exited", `server "${this.#name}" was stopped by us, so it hears nothing`);
  }

  #detail(): { detail?: string } {
    const { stderrTail } = this.#tail;
    return stderrTail === undefined ? {} : { detail: stderrTail };
  }
}

/** A running program of a server; `brokenLimit` is the limit for which its sandbox ended it. */
export type ServerProgram = ManagedProcess & { readonly brokenLimit?: string | undefined };

/**
 * Starts a server's program, in a sandbox if it has one: there it can read its folder and the listed paths, and write the
 * listed paths. Without a sandbox the process exists when this function returns. Throws McpvalsError `server/spawn-failed` and
 * `sandbox/unavailable`.
 */
async function startProgram(spec: StdioServerSpec): Promise<ServerProgram> {
  const { command, args, env, cwd, sandbox } = spec;
  if (sandbox === undefined) return spawnProcess(spec);
  const home = env["HOME"] ?? homedir();
  const listed = (paths: readonly string[]): readonly string[] =>
    paths.map((path) => listedPath(path, cwd, home));
  const kind = await sandboxOf(sandbox.kind);
  return kind.start({
    process: { command, args, env, cwd },
    read: [cwd, ...listed(sandbox.read)],
    write: listed(sandbox.write),
    spec: sandbox,
  });
}

/** Tries each sandbox that the servers use. Throws McpvalsError `sandbox/unavailable`, and the signal's reason. */
export async function checkSandboxes(servers: readonly ServerSpec[], signal: AbortSignal): Promise<void> {
  for (const server of servers) {
    const sandbox = server.transport === "stdio" ? server.sandbox : undefined;
    if (sandbox !== undefined) await (await sandboxOf(sandbox.kind)).check(sandbox, signal);
  }
}

/** Loaded only when it is used. */
async function sandboxOf(kind: "none" | "process" | "docker") {
  const sandboxes = await import("../../sandbox/sandboxes.ts");
  return sandboxes.sandboxOf(kind);
}

export interface MessagePipeOptions {
  /** Name of the server, for messages. */
  readonly server: string;
  /** Largest message accepted, in bytes. */
  readonly maxMessageBytes: number;
  readonly onMessage: (wire: WireMessage) => void;
  /** Called for every line on stdout that is not a message. */
  readonly onInvalidLine: (line: Buffer) => void;
  /** Called once when a message goes beyond the limits; reading stops there. */
  readonly onBroken: (error: McpvalsError) => void;
}

/** MCP over the pipes of a process: one JSON-RPC message a line. Closing it does not end the process. */
export class MessagePipe {
  readonly #stdin: Writable;
  readonly #stdout: Readable;
  readonly #reader: LineReader;
  readonly #options: MessagePipeOptions;
  readonly #closing = new AbortController();
  #started = false;
  /** Settles when stdin accepts more; shared by all waiting senders. */
  #drained: Promise<void> | undefined;

  constructor(stdin: Writable, stdout: Readable, options: MessagePipeOptions) {
    this.#stdin = stdin;
    this.#stdout = stdout;
    this.#options = options;
    this.#reader = new LineReader({
      limit: options.maxMessageBytes,
      onLine: (line) => this.#receive(line),
      onTooLong: () => this.#refuse(),
    });
  }

  get closed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Begins to read; calling it again does nothing. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#stdout.on("data", (chunk: Buffer) => this.#reader.push(chunk));
    this.#stdout.once("end", () => this.#reader.end());
  }

  /**
   * Writes a message in one line; settles when the pipe has accepted it. Waits while the server reads too slowly, and on a
   * broken pipe until this is closed, since only the owner of the process knows the reason.
   */
  send(text: string): Promise<void> {
    const accepted = this.#stdin.writable && this.#stdin.write(`${inOneLine(text)}\n`);
    return accepted ? Promise.resolve() : this.#drain();
  }

  close(): void {
    this.#closing.abort();
    this.#reader.stop();
  }

  #drain(): Promise<void> {
    this.#drained ??= new Promise<void>((resolve) => {
      const done = (): void => {
        this.#drained = undefined;
        this.#stdin.off("drain", done);
        this.#closing.signal.removeEventListener("abort", done);
        resolve();
      };
      if (this.closed) return done();
      this.#stdin.once("drain", done);
      this.#closing.signal.addEventListener("abort", done);
    });
    return this.#drained;
  }

  #receive(line: Buffer): void {
    if (line.length === 0 || this.closed) return;
    const excess = jsonExcess(line, { levels: deepestMessage });
    if (excess !== undefined && mayBeMessage(line)) {
      this.#options.onBroken(excessive(this.#options.server, excess));
      return;
    }
    const parsed = parseMessage(line);
    if (parsed !== undefined) this.#options.onMessage(parsed);
    else if (line.some(isVisible)) this.#options.onInvalidLine(line);
  }

  #refuse(): void {
    const { server, maxMessageBytes, onBroken } = this.#options;
    onBroken(messageTooLarge(server, maxMessageBytes));
  }
}

function isVisible(byte: number): boolean {
  return byte !== 0x20 && byte !== 0x09;
}
