import type { Readable, Writable } from "node:stream";
import { settlesWithin } from "../process/deadline.ts";
import type { ManagedProcess, ProcessExit } from "../process/spawn.ts";
import type { StoppedBy, StopOptions, StopResult } from "../process/stop-tree.ts";
import type { ConfinedProcess } from "./sandbox.ts";

/** What a sandbox does besides what `spawnProcess` does. None of it throws. */
export interface Confining {
  /** Why it was ended, when it broke a limit. */
  readonly brokenLimit: () => string | undefined;
  /**
   * Signals what is inside, for a sandbox in which everything is killed when the process that confines it ends, so that
   * this must not get SIGTERM itself. Absent: the whole tree gets SIGTERM.
   */
  readonly signalInside?: (signal: "SIGTERM" | "SIGKILL") => Promise<void>;
  /** Told when it is about to be stopped. */
  readonly onStop?: () => void;
  /** Removes what would outlive the process. Called whenever it has ended, perhaps more than once. */
  readonly cleanUp?: () => Promise<void>;
}

/** Longest wait for the kernel to carry out SIGKILL, in milliseconds. */
const killMs = 2000;

/** A program behind the process that confines it. */
export class ConfinedProgram implements ConfinedProcess {
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly exited: Promise<ProcessExit>;
  readonly #child: ManagedProcess;
  readonly #confining: Confining;
  #stopping: Promise<StopResult> | undefined;

  constructor(child: ManagedProcess, confining: Confining) {
    this.pid = child.pid;
    this.stdin = child.stdin;
    this.stdout = child.stdout;
    this.stderr = child.stderr;
    this.exited = child.exited;
    this.#child = child;
    this.#confining = confining;
  }

  get exit(): ProcessExit | undefined {
    return this.#child.exit;
  }

  get brokenLimit(): string | undefined {
    return this.#confining.brokenLimit();
  }

  stop(options?: StopOptions): Promise<StopResult> {
    if (this.#stopping === undefined) {
      this.#confining.onStop?.();
      this.#stopping = this.#stop(options);
    }
    return this.#stopping;
  }

  async release(): Promise<boolean> {
    if (this.exit === undefined || this.#stopping !== undefined) return false;
    await this.#confining.cleanUp?.();
    return this.#child.release();
  }

  async #stop(options: StopOptions = {}): Promise<StopResult> {
    const started = performance.now();
    const by = await this.#endInside(options);
    const result = await this.#child.stop(by === "SIGKILL" ? { stdinMs: 0, termMs: 0 } : options);
    await this.#confining.cleanUp?.();
    return { ...result, durationMs: performance.now() - started, ...(by === undefined ? {} : { by }) };
  }

  /** What ended it; undefined when the whole tree can be asked or has gone. */
  async #endInside({ stdinMs = 1000, termMs = 1000 }: StopOptions): Promise<StoppedBy | undefined> {
    const { signalInside } = this.#confining;
    if (signalInside === undefined || this.exit !== undefined) return undefined;
    this.stdin.end();
    if (await settlesWithin(this.exited, stdinMs)) return "stdin";
    if (termMs > 0) {
      await signalInside("SIGTERM");
      if (await settlesWithin(this.exited, termMs)) return "SIGTERM";
    }
    await signalInside("SIGKILL");
    await settlesWithin(this.exited, killMs);
    return "SIGKILL";
  }
}
