import type { Readable, Writable } from "node:stream";
import { McpvalsError } from "../core/errors/error.ts";
import type { SandboxSpec } from "../core/formats/model.ts";
import { settlesWithin, withDeadline } from "../process/deadline.ts";
import { memoryOf, type ProcessInfo, signalDescendants, watchTree } from "../process/list-processes.ts";
import type { StopOptions, StoppedBy, StopResult } from "../process/process-tree.ts";
import { ProgramOutput } from "../process/program-output.ts";
import type { ManagedProcess, ProcessExit, ProcessSpec } from "../process/spawn.ts";

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

export interface Limited {
  /** What confines the program; its descendants are what is limited. */
  readonly child: ManagedProcess;
  readonly spec: SandboxSpec;
  /** How many of the descendants belong to the sandbox and not to the program. */
  readonly own: number;
  /** Whether the child itself is the program and counts too. */
  readonly countsChild: boolean;
  /** Bytes that the program holds besides the memory of its processes, as in memory file systems. */
  readonly besides?: (descendants: readonly ProcessInfo[]) => number;
}

/**
 * Looks many times a second at the processes of a sandbox, and ends them all when together they hold more memory, or are
 * more, than the spec allows. Between two looks they can go over: by how much is bounded only by what the sandbox itself
 * limits. The result says which limit was broken, from before the end of the process.
 */
export function watchLimits(limited: Limited): () => string | undefined {
  const { child } = limited;
  let broken: string | undefined;
  const watch = watchTree(child.pid, async (descendants) => {
    if (child.exit !== undefined || broken !== undefined) return;
    broken = await findBroken(limited, descendants);
    if (broken !== undefined) void end(child);
  });
  void child.exited.then(() => watch[Symbol.dispose]());
  return () => broken;
}

async function findBroken(
  limited: Limited,
  descendants: readonly ProcessInfo[],
): Promise<string | undefined> {
  const { spec, own, countsChild, child, besides } = limited;
  const processes = descendants.length - own + (countsChild ? 1 : 0);
  if (processes > spec.processes) return `it had ${processes} processes, and may have ${spec.processes}`;
  const pids = descendants.map(({ pid }) => pid);
  const extra = besides?.(descendants) ?? 0;
  const bytes = extra + (await memoryOf(countsChild ? [child.pid, ...pids] : pids, spec.memoryBytes - extra));
  if (bytes <= spec.memoryBytes) return undefined;
  return `it used ${inMegabytes(bytes)} of memory, and may use ${inMegabytes(spec.memoryBytes)}`;
}

/**
 * Ends what is inside first: what is in a namespace ends with its first process, before the one that confines it can end,
 * so that nothing is left once that has.
 */
async function end(child: ManagedProcess): Promise<void> {
  await signalDescendants(child.pid, "SIGKILL");
  await settlesWithin(child.exited, killMs);
  await child.stop({ stdinMs: 0, termMs: 0 });
}

/** A size as people read it; MB are of 1024 * 1024 bytes, as in the spec. */
export function inMegabytes(bytes: number): string {
  const megabytes = bytes / 1024 / 1024;
  return `${megabytes < 10 ? megabytes.toFixed(1) : Math.ceil(megabytes)} MB`;
}

type Check = (spec: SandboxSpec, signal: AbortSignal) => Promise<void>;

/**
 * A check that does its work once for specs that are alike in what can be missing here, as long as mcpvals runs. What failed
 * is tried again. Each caller waits no longer than its own signal allows.
 */
export function checkOnce(check: Check): Check {
  const held = new Set<string>();
  return async (spec, signal) => {
    signal.throwIfAborted();
    const key = JSON.stringify([spec.network, spec.image, spec.runtime]);
    if (held.has(key)) return;
    await check(spec, signal);
    held.add(key);
  };
}

/** Starts a confined program. */
export type Start = (confinement: Confinement) => Promise<ConfinedProcess>;

/** What came of a program that was run to its end; texts are without blanks around them. */
export interface Tried {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How long a program that does nothing may take, in milliseconds. */
const longest = 10_000;

/** Runs a program that does nothing in a sandbox. Throws McpvalsError `sandbox/unavailable`, and the signal's reason. */
export async function tryNothing(spec: SandboxSpec, signal: AbortSignal, start: Start): Promise<Tried> {
  const process = { command: "/bin/sh", args: ["-c", "exit 0"], env: {}, cwd: "/tmp" };
  return runToEnd(await start({ process, read: [], write: [], spec }), signal, longest);
}

/**
 * Collects what a program that was just started says until it ends, and stops it. Throws McpvalsError
 * `sandbox/unavailable` when it has not ended after `ms` milliseconds, and the signal's reason.
 */
export async function runToEnd(child: ManagedProcess, signal: AbortSignal, ms: number): Promise<Tried> {
  const output = new ProgramOutput();
  output.attach(child);
  try {
    const { exitCode } = await withDeadline(async () => child.exited, {
      ms,
      signal,
      onTimeout: () =>
        new McpvalsError("sandbox/unavailable", `trying the sandbox took more than ${ms / 1000} seconds`),
    });
    await output.settle(100);
    return { exitCode, stdout: output.stdout.text.trim(), stderr: output.stderr.text.trim() };
  } finally {
    output.stop();
    await child.stop({ stdinMs: 0, termMs: 0 });
  }
}

/** A sandbox that this platform does not have: it refuses everything. `reason` is a sentence without its full stop. */
export function unavailable(kind: SandboxSpec["kind"], reason: string): Sandbox {
  const refuse = (): Promise<never> =>
    Promise.reject(
      new McpvalsError("sandbox/unavailable", reason, {
        hint: "Choose another sandbox, or none for extensions that you trust.",
      }),
    );
  return { kind, check: refuse, start: refuse };
}

/** A program to be started, and what it may see. All paths are absolute. */
export interface Confinement {
  /** Command, arguments, complete environment and folder, as they are without a sandbox. */
  readonly process: ProcessSpec;
  /** Files and folders that it may read besides the system's: the extension's own, the task's folder, what the spec lists. */
  readonly read: readonly string[];
  /** Folders that it may write: the trial's workspace. */
  readonly write: readonly string[];
  readonly spec: SandboxSpec;
}

/** A confined program. */
export interface ConfinedProcess extends ManagedProcess {
  /** Why it was ended, when it broke a limit; undefined otherwise. */
  readonly brokenLimit: string | undefined;
}

/** One way to confine programs. */
export interface Sandbox {
  readonly kind: SandboxSpec["kind"];
  /** Tries it once, for real. Throws McpvalsError `sandbox/unavailable` where it cannot be had, with what to do. */
  check(spec: SandboxSpec, signal: AbortSignal): Promise<void>;
  /**
   * Starts the program. Stopping it ends everything that it started, whatever that did to hide. Throws McpvalsError
   * `server/spawn-failed`, and `sandbox/unavailable`.
   */
  start(confinement: Confinement): Promise<ConfinedProcess>;
}
