import { McpvalsError } from "../../core/errors/error.ts";
import { closed } from "../../process/stop-tree.ts";
import { settlesWithin } from "../../process/deadline.ts";
import { type ManagedProcess, type ProcessExit, spawnProcess } from "../../process/spawn.ts";
import { TextTail } from "../../process/text-tail.ts";
import type { Faults } from "./faults.ts";
import { Leftovers, nameProcesses } from "./leftovers.ts";
import type { Subject } from "./subject.ts";

/** How long what a program started may take to end after it, in milliseconds. */
const settleMs = 400;

/** A process of the program that is tried. To be finished, whatever happens. */
export class WatchedProcess {
  readonly #subject: Subject;
  readonly #process: ManagedProcess;
  readonly #leftovers: Leftovers;
  readonly #stderr = new TextTail();

  /** Starts the program. Throws McpvalsError `server/spawn-failed`. */
  static async start(subject: Subject, more: readonly string[] = []): Promise<WatchedProcess> {
    subject.signal.throwIfAborted();
    const leftovers = new Leftovers();
    const { command, args, cwd, env } = subject;
    const process = await spawnProcess({
      command,
      args: [...args, ...more],
      cwd,
      env: { ...env, ...leftovers.env },
    });
    return new WatchedProcess(subject, process, leftovers);
  }

  constructor(subject: Subject, process: ManagedProcess, leftovers: Leftovers) {
    this.#subject = subject;
    this.#process = process;
    this.#leftovers = leftovers;
    process.stderr.on("data", (chunk: Buffer) => this.#stderr.push(chunk));
  }

  get stdin(): ManagedProcess["stdin"] {
    return this.#process.stdin;
  }

  get stdout(): ManagedProcess["stdout"] {
    return this.#process.stdout;
  }

  get stderr(): ManagedProcess["stderr"] {
    return this.#process.stderr;
  }

  get exited(): Promise<ProcessExit> {
    return this.#process.exited;
  }

  get exit(): ProcessExit | undefined {
    return this.#process.exit;
  }

  /** `ended with exit code 3`; undefined as long as it lives. */
  get howItEnded(): string | undefined {
    if (this.exit === undefined) return undefined;
    const { exitCode, signal } = this.exit;
    return exitCode === null ? `was ended by ${String(signal)}` : `ended with exit code ${exitCode}`;
  }

  /** The end of stderr, to be put behind a sentence; empty when there is nothing. */
  get stderrTail(): string {
    return this.#stderr.text === undefined ? "" : `; stderr ends with: ${this.#stderr.text.slice(-1500)}`;
  }

  /** Ends it at once, with everything that it started; what was left then is no fault. Never throws. */
  async kill(): Promise<void> {
    await this.#process.stop({ stdinMs: 0, termMs: 0 });
  }

  /** Looks for what the program, which has ended by itself, has left; then ends that. Never throws. */
  async finish(faults: Faults): Promise<void> {
    if (this.exit !== undefined && !(await this.#isGone())) await this.#tellLeftovers(faults);
    await this.#process.stop({ stdinMs: 0, termMs: 300 });
  }

  async #isGone(): Promise<boolean> {
    const { stdout, stderr } = this.#process;
    const pipes = settlesWithin(Promise.all([closed(stdout), closed(stderr)]), settleMs);
    return (await pipes) && (await this.#process.release());
  }

  async #tellLeftovers(faults: Faults): Promise<void> {
    const pids = await this.#leftovers.find(this.#process.pid);
    const holds = !this.#process.stdout.closed && !this.#process.stdout.readableEnded;
    if (pids.length === 0 && !holds) return;
    const who = pids.length === 0 ? "a process" : await nameProcesses(pids, this.#subject.env["PATH"]);
    const held = holds ? ", and holds its stdout" : "";
    faults.add("leftovers", `what the program started lives on after it${held}: ${who}`);
  }
}

/** Why a program could not be started, for a verdict. Throws what is no such reason. */
export function startProblem(error: unknown): string {
  if (error instanceof McpvalsError) return `the program could not be started: ${error.message}`;
  throw error;
}
