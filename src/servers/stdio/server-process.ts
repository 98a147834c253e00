import { homedir } from "node:os";
import { McpvalsError } from "../../base/error.ts";
import { withoutUndefined } from "../../base/json.ts";
import type { ServerSpec, StdioServerSpec } from "../../model/server.ts";
import { jsonExcess } from "../../base/read-json.ts";
import type { Emit } from "../../model/event.ts";
import { settlesWithin } from "../../process/deadline.ts";
import { LineReader } from "../../process/program-output.ts";
import {
  type ManagedProcess,
  type ProcessExit,
  spawnProcess,
  type StopOptions,
} from "../../process/spawn.ts";
import { listedPath } from "../../sandbox/mounts.ts";
import {
  type Channel,
  type ChannelListener,
  type Evidence,
  exitMs,
  settleMs,
  startFailure,
  Watchers,
} from "../connections/host.ts";
import {
  type Era,
  excessive,
  inOneLine,
  mayBeMessage,
  messageTooLarge,
  parseMessage,
} from "../messages/json-rpc.ts";
import { type ClientOptions, Multiplexer } from "./multiplexer.ts";

/**
 * Starts the program of a server, with one JSON-RPC message per line on its pipes. In a sandbox it can read its folder and the listed paths,
 * and write the listed paths. Without a sandbox the process exists when this function returns, before its promise settles. Throws
 * McpvalsError `server/spawn-failed` and `sandbox/unavailable`.
 */
export async function startServerProcess(name: string, spec: StdioServerSpec): Promise<ServerProcess> {
  try {
    return new ServerProcess(name, spec, await startProgram(spec));
  } catch (error) {
    throw startFailure(name, error);
  }
}

/** A running program of a server; `brokenLimit` is the limit for which the sandbox killed it. */
type ServerProgram = ManagedProcess & { readonly brokenLimit?: string | undefined };

async function startProgram(spec: StdioServerSpec): Promise<ServerProgram> {
  const { command, args, env, cwd, sandbox } = spec;
  if (sandbox === undefined) return spawnProcess(spec);
  const home = env["HOME"] ?? homedir();
  const listed = (paths: readonly string[]): string[] => paths.map((path) => listedPath(path, cwd, home));
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

/** A program that serves MCP over its pipes: the process, its clients and its watchers. */
export class ServerProcess {
  /** The protocol era of the program; undefined before the first request. */
  era: Era | undefined;
  readonly #name: string;
  readonly #process: ServerProgram;
  readonly #clients = new Multiplexer((text) => this.#send(text));
  readonly #reader: LineReader;
  /** Aborts when no more messages are sent or received. */
  readonly #closing = new AbortController();
  readonly #watchers: Watchers;
  readonly #lost = new AbortController();
  readonly #ended: Promise<void>;
  #isReading = false;
  /** Whether all of stdout was read, so that a line after it has no end. */
  #hasEnded = false;
  /** Settles when stdin accepts more data; shared by all waiting senders. */
  #drained: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(name: string, spec: StdioServerSpec, process: ServerProgram) {
    this.#name = name;
    this.#process = process;
    const { command, args, sandbox, captureStderr } = spec;
    this.#watchers = new Watchers(name, {
      transport: "stdio",
      target: [command, ...args].join(" "),
      pid: process.pid,
      ...(sandbox === undefined ? {} : { sandbox: sandbox.kind }),
    });
    this.#reader = new LineReader({
      limit: spec.maxMessageBytes,
      onLine: (line) => this.#receive(line),
      onTooLong: () => this.#break(messageTooLarge(name, spec.maxMessageBytes)),
    });
    process.stderr.on("data", (chunk: Buffer) => this.#watchers.stderr(chunk, captureStderr !== false));
    this.#ended = process.exited.then((exit) => this.#recordExit(exit));
    process.stdin.once("close", () => void this.#pipeClosed("stdin"));
    process.stdout.once("end", () => void this.#pipeClosed("stdout"));
  }

  /** Aborts with an McpvalsError when the process is lost without being stopped. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Records the process until the returned function is called. */
  watch(emit: Emit): () => void {
    return this.#watchers.add(emit);
  }

  /** Opens a channel for a client; the first one starts the reading of stdout. */
  open(listener: ChannelListener, options: ClientOptions): Channel {
    if (this.#closing.signal.aborted) {
      queueMicrotask(() => listener.onClosed());
      return { send: () => Promise.reject(this.#gone()), close: () => Promise.resolve() };
    }
    const channel = this.#clients.open(listener, options);
    if (!this.#isReading) {
      this.#isReading = true;
      this.#process.stdout.on("data", (chunk: Buffer) => this.#reader.push(chunk));
      this.#process.stdout.once("end", () => {
        this.#hasEnded = true;
        // Where the process was stopped, a line without an end was cut off.
        if (this.#stopping === undefined) this.#reader.end();
      });
    }
    return channel;
  }

  evidence(): Evidence {
    return this.#watchers.evidence();
  }

  stop(options?: StopOptions): Promise<void> {
    this.#stopping ??= this.#stop(options);
    return this.#stopping;
  }

  async #stop(options?: StopOptions): Promise<void> {
    const { by, durationMs, survivors } = await this.#process.stop(options);
    // A process in an uninterruptible system call survives even SIGKILL.
    await settlesWithin(this.#ended, settleMs);
    this.#close();
    this.#watchers.stop(by, durationMs, survivors);
  }

  /**
   * Writes a message in one line; settles when the pipe has accepted it. Waits while the server reads too slowly, and on a
   * broken pipe until the reason is known.
   */
  #send(text: string): Promise<void> {
    const { stdin } = this.#process;
    const { signal } = this.#closing;
    if (signal.aborted) return Promise.reject(this.#gone());
    if (stdin.writable && stdin.write(`${inOneLine(text)}\n`)) return Promise.resolve();
    this.#drained ??= new Promise<void>((resolve) => {
      const done = (): void => {
        this.#drained = undefined;
        stdin.off("drain", done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      stdin.once("drain", done);
      signal.addEventListener("abort", done);
    });
    return this.#drained;
  }

  #receive(line: Buffer): void {
    if (line.length === 0 || this.#closing.signal.aborted) return;
    const excess = mayBeMessage(line) ? jsonExcess(line) : undefined;
    if (excess !== undefined) return this.#break(excessive(this.#name, excess));
    const wire = parseMessage(line);
    if (wire !== undefined) return this.#clients.receive(wire);
    // A message that was cut off as the program ended is no log line: its end is on record.
    if (this.#hasEnded && mayBeMessage(line) && !isJson(line)) return;
    if (line.some((byte) => byte !== 0x20 && byte !== 0x09)) this.#watchers.invalidLine(line);
  }

  async #recordExit(exit: ProcessExit): Promise<void> {
    const process = this.#process;
    const how = await this.#watchers.exited(exit, process, () => this.#wasEndedByUs(exit.signal));
    if (how === undefined) return;
    const hint = "Its stderr usually says why; run the same command in a terminal.";
    this.#lose("server/exited", how, hint);
  }

  /** False if it ended before its stdin was closed, or by a signal from elsewhere. */
  async #wasEndedByUs(signal: ProcessExit["signal"]): Promise<boolean> {
    if (this.#stopping === undefined) return false;
    const { by } = await this.#process.stop();
    return by !== "already-exited" && (by !== "stdin" || signal === null);
  }

  async #pipeClosed(pipe: "stdin" | "stdout"): Promise<void> {
    if ((await settlesWithin(this.#ended, exitMs)) || this.#stopping !== undefined) return;
    const hint = "An MCP server over stdio keeps both open until it ends.";
    this.#lose("server/protocol-error", `closed its ${pipe} but goes on running`, hint);
  }

  #lose(code: "server/exited" | "server/protocol-error", how: string, hint: string): void {
    const details = withoutUndefined({ hint, detail: this.#watchers.evidence().stderrTail });
    const error = new McpvalsError(code, `server "${this.#name}" ${how}`, details);
    this.#lost.abort(error);
    this.#close();
  }

  /** A message exceeds the limits, so reading stops. */
  #break(error: McpvalsError): void {
    if (this.#stopping !== undefined) return;
    this.#lost.abort(error);
    this.#close();
  }

  #close(): void {
    this.#closing.abort();
    this.#reader.stop();
    this.#clients.close();
  }

  #gone(): McpvalsError {
    const lost: unknown = this.#lost.signal.reason;
    if (lost instanceof McpvalsError) return lost;
    return new McpvalsError(
      "server/exited",
      `server "${this.#name}" was stopped by mcpvals, so no message reaches it`,
    );
  }
}

function isJson(line: Buffer): boolean {
  try {
    JSON.parse(line.toString("utf8"));
    return true;
  } catch {
    return false;
  }
}
