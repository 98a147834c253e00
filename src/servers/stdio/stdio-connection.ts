import type { Transport } from "@modelcontextprotocol/client";
import { McpvalsError } from "../../core/errors/error.ts";
import type { StdioServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { settlesWithin } from "../../process/deadline.ts";
import { type ManagedProcess, type ProcessExit, spawnProcess } from "../../process/spawn.ts";
import { closed } from "../../process/stop-tree.ts";
import type { Evidence, ServerConnection } from "../connection.ts";
import { OutputRecorder } from "./output-recorder.ts";
import { RecordingTransport } from "../recording.ts";
import { StdioTransport } from "./stdio-transport.ts";

/** How long output may arrive after the process has ended, and the end after the output, in milliseconds. */
const settleMs = 250;

/**
 * Starts a server as a process. The process exists when this function returns, before its promise settles. Throws
 * McpvalsError `server/spawn-failed`.
 */
export async function openStdioConnection(
  name: string,
  spec: StdioServerSpec,
  emit: Emit,
): Promise<ServerConnection> {
  try {
    return new StdioConnection(name, await spawnProcess(spec), { spec, emit });
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    throw new McpvalsError(
      error.code,
      `server "${name}" could not be started: ${error.message}`,
      error.details,
    );
  }
}

class StdioConnection implements ServerConnection {
  readonly name: string;
  readonly transport: Transport;
  readonly #process: ManagedProcess;
  readonly #emit: Emit;
  readonly #output: OutputRecorder;
  readonly #stdio: StdioTransport;
  readonly #lost = new AbortController();
  readonly #ended: Promise<void>;
  #stopping: Promise<void> | undefined;

  constructor(name: string, process: ManagedProcess, { spec, emit }: { spec: StdioServerSpec; emit: Emit }) {
    this.name = name;
    this.#process = process;
    this.#emit = emit;
    this.#output = new OutputRecorder({ server: name, emit });
    this.#stdio = new StdioTransport(process.stdin, process.stdout, {
      server: name,
      maxMessageBytes: spec.maxMessageBytes,
      onInvalidLine: (line) => this.#output.invalidLine(line),
      onBroken: (error) => this.#lose(error),
    });
    this.transport = new RecordingTransport(this.#stdio, {
      server: name,
      emit,
      rawText: (message) => this.#stdio.rawText(message),
      onBroken: (error) => this.#lose(error),
    });
    const target = [spec.command, ...spec.args].join(" ");
    emit({ type: "server.started", server: name, transport: "stdio", target, pid: process.pid });
    process.stderr.on("data", (chunk: Buffer) => this.#output.stderr(chunk));
    this.#ended = process.exited.then((exit) => this.#recordExit(exit));
    process.stdin.once("close", () => void this.#pipeClosed("stdin"));
    process.stdout.once("end", () => void this.#pipeClosed("stdout"));
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  evidence(): Evidence {
    const { stderrTail, firstInvalidLine } = this.#output;
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
    // A process that outlives even SIGKILL, stuck in the kernel, has no end to record.
    await settlesWithin(this.#ended, settleMs);
    await this.#stdio.close();
    this.#output.finish();
    this.#emit({ type: "server.stopped", server: this.name, by, durationMs });
  }

  async #recordExit({ exitCode, signal }: ProcessExit): Promise<void> {
    const expected = this.#stopping !== undefined;
    await this.#drain();
    this.#output.flush();
    this.#emit({ type: "server.exited", server: this.name, exitCode, signal, expected });
    const how = signal === null ? `exited with code ${exitCode}` : `was ended by ${signal}`;
    this.#lose(
      new McpvalsError("server/exited", `server "${this.name}" ${how}`, {
        hint: "Its stderr usually says why; run the same command in a terminal.",
        ...this.#detail(),
      }),
    );
  }

  /** The last answer may be the reason why the process could end, so everything that it wrote is read first. */
  async #drain(): Promise<void> {
    const { stdout, stderr } = this.#process;
    await settlesWithin(Promise.all([closed(stdout), closed(stderr)]), settleMs);
  }

  async #pipeClosed(pipe: "stdin" | "stdout"): Promise<void> {
    if (await settlesWithin(this.#ended, settleMs * 2)) return;
    this.#lose(
      new McpvalsError(
        "server/protocol-error",
        `server "${this.name}" closed its ${pipe} but goes on running`,
        {
          hint: "An MCP server over stdio keeps both open until it ends.",
          ...this.#detail(),
        },
      ),
    );
  }

  #lose(error: McpvalsError): void {
    if (this.#stopping !== undefined) return;
    if (!this.#lost.signal.aborted) this.#lost.abort(error);
    void this.#stdio.close();
  }

  #detail(): { detail?: string } {
    const { stderrTail } = this.#output;
    return stderrTail === undefined ? {} : { detail: stderrTail };
  }
}
