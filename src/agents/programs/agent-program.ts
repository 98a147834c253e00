import { tmpdir } from "node:os";
import { isAbsolute } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import type { AcpAgentSpec, CommandAgentSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { findProgram } from "../../process/environment.ts";
import { type ManagedProcess, type ProcessSpec, spawnProcess } from "../../process/spawn.ts";
import type { StopOptions, StoppedBy } from "../../process/process-tree.ts";
import { ProgramLines } from "./program-lines.ts";

/** A running agent program. */
export interface AgentProgram {
  readonly process: ManagedProcess;
  /** The last 4 KiB of its stderr. */
  stderrTail(): string | undefined;
  /** Ends it with everything that it started, and records its end once. Never throws. */
  stop(options?: StopOptions): Promise<void>;
  /** When it has been stopped: it ended without a signal of ours, and not with code 0. */
  readonly endedBadly: boolean;
  /** The error for an end that nobody asked for. */
  exitedError(doing: string): McpvalsError;
}

export interface AgentProgramOptions extends ProcessSpec {
  /** The agent's name. */
  readonly name: string;
  readonly emit: Emit;
  /** It is to end by itself, with code 0. */
  readonly endsItself?: true;
}

/**
 * Starts an agent's program, recording its stderr and its end. Throws McpvalsError `agent/spawn-failed`.
 */
export async function startAgentProgram(options: AgentProgramOptions): Promise<AgentProgram> {
  const process = await spawn(options);
  return new RunningProgram(process, options);
}

async function spawn(options: AgentProgramOptions): Promise<ManagedProcess> {
  try {
    return await spawnProcess(options);
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { hint } = error.details;
    throw new McpvalsError("agent/spawn-failed", `agent ${options.name}: ${error.message}`, {
      ...(hint === undefined ? {} : { hint }),
      cause: error,
    });
  }
}

class RunningProgram implements AgentProgram {
  readonly process: ManagedProcess;
  readonly #options: AgentProgramOptions;
  readonly #stderr: ProgramLines;
  #asked = false;
  #ended = false;
  #stoppedBy: StoppedBy | undefined;

  constructor(process: ManagedProcess, options: AgentProgramOptions) {
    this.process = process;
    this.#options = options;
    this.#stderr = new ProgramLines({ stream: "stderr", emit: options.emit });
    process.stderr.on("data", (chunk: Buffer) => {
      if (!this.#ended) this.#stderr.push(chunk);
    });
    void process.exited.then(() => this.#recordExit());
  }

  stderrTail(): string | undefined {
    return this.#stderr.tail;
  }

  async stop(options?: StopOptions): Promise<void> {
    this.#asked ||= this.process.exit === undefined;
    this.#stoppedBy = (await this.process.stop(options)).by;
    if (this.#ended) return;
    this.#ended = true;
    this.#stderr.finish();
  }

  get endedBadly(): boolean {
    const isOwnEnd = this.#stoppedBy === "already-exited" || this.#stoppedBy === "stdin";
    return isOwnEnd && this.process.exit?.exitCode !== 0;
  }

  exitedError(doing: string): McpvalsError {
    const { exitCode, signal } = this.process.exit ?? { exitCode: null, signal: null };
    const how = signal === null ? `with code ${exitCode}` : `by ${signal}`;
    const detail = this.stderrTail();
    const message = `agent ${this.#options.name} ended ${how} ${doing}`;
    return new McpvalsError("agent/exited", message, detail === undefined ? {} : { detail });
  }

  #recordExit(): void {
    const { exitCode, signal } = this.process.exit ?? { exitCode: null, signal: null };
    const expected = this.#asked || (this.#options.endsItself === true && exitCode === 0);
    this.#options.emit({ type: "agent.exited", exitCode, signal, expected });
  }
}

/** What programs that are agents need besides their own description. */
export interface ProgramAgentOptions {
  /** Version of mcpvals, as agents are told. */
  readonly version: string;
}

type Program = Pick<AcpAgentSpec | CommandAgentSpec, "name" | "command" | "env" | "cwd">;

/**
 * Throws McpvalsError `agent/program-not-found` when an agent's program cannot be found. A path that is relative to the
 * workspace of a trial, which does not exist yet, is not looked at. `npmPackage` is what has the program.
 */
export async function findAgentProgram(
  { name, command, env, cwd }: Program,
  npmPackage?: string,
): Promise<void> {
  if (cwd === undefined && !isAbsolute(command) && /[/\\]/.test(command)) return;
  if ((await findProgram(command, { env, cwd: cwd ?? tmpdir() })) !== undefined) return;
  const install = npmPackage === undefined ? "Install it" : `Install it (npm install --global ${npmPackage})`;
  throw new McpvalsError("agent/program-not-found", `agent ${name}: program not found: ${command}`, {
    hint: `${install}, or give its full path as command.`,
  });
}
