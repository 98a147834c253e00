import type { Readable, Writable } from "node:stream";
import { McpvalsError } from "../core/errors/error.ts";
import type { SandboxSpec } from "../core/formats/model.ts";
import { settlesWithin, withDeadline } from "../process/deadline.ts";
import { memoryOf, type ProcessInfo, signalDescendants, watchTree } from "../process/list-processes.ts";
import type { StopOptions, StoppedBy, StopResult } from "../process/process-tree.ts";
import { ProgramOutput } from "../process/program-output.ts";
import type { ManagedProcess, ProcessExit, ProcessSpec } from "../process/spawn.ts";

/** A program to be started, and what it may access. All paths are absolute. */
export interface Confinement {
  /** As it would be started without a sandbox. */
  readonly process: ProcessSpec;
  /** Files and folders that it may read besides those of the system. */
  readonly read: readonly string[];
  /** Folders that it may write. */
  readonly write: readonly string[];
  readonly spec: SandboxSpec;
}

/** A confined program. */
export interface ConfinedProcess extends ManagedProcess {
  /** Which limit it broke, when it was ended for that; undefined otherwise. */
  readonly brokenLimit: string | undefined;
}

/** One way to confine programs. */
export interface Sandbox {
  readonly kind: SandboxSpec["kind"];
  /** Runs something in it once. Throws McpvalsError `sandbox/unavailable`, with a hint, where that does not work. */
  check(spec: SandboxSpec, signal: AbortSignal): Promise<void>;
  /**
   * Starts the program. Stopping it ends everything that it started, even what tried to detach. Throws McpvalsError
   * `server/spawn-failed`, and `sandbox/unavailable`.
   */
  start(confinement: Confinement): Promise<ConfinedProcess>;
}

/** What a sandbox adds to a process. None of it throws. */
export interface Confining {
  readonly brokenLimit: () => string | undefined;
  /**
   * Signals the processes inside, for a sandbox whose end kills them all, so that the confining process must not get SIGTERM
   * itself. Absent: the whole tree gets SIGTERM.
   */
  readonly signalInside?: (signal: "SIGTERM" | "SIGKILL") => Promise<void>;
  /** Called before it is stopped. */
  readonly onStop?: () => void;
  /** Removes what would outlive the process. May be called more than once after its end. */
  readonly cleanUp?: () => Promise<void>;
}

/** Longest wait for the kernel to carry out SIGKILL, in milliseconds. */
const killMs = 2000;

/** A program inside the process that confines it. */
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

  /** What ended it; undefined when the whole tree can be stopped as usual, or has ended. */
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
  /** The confining process; its descendants are limited. */
  readonly child: ManagedProcess;
  readonly spec: SandboxSpec;
  /** How many of the descendants are processes of the sandbox itself. */
  readonly own: number;
  /** Whether the child itself is the program, and counts too. */
  readonly countsChild: boolean;
  /** Memory of the program, in bytes, that belongs to none of its processes, such as files in memory. */
  readonly besides?: (descendants: readonly ProcessInfo[]) => number;
}

/**
 * Polls the processes of a sandbox many times a second, and ends them all when their memory or their number exceeds the limits
 * of the spec. Between two polls they can exceed them, bounded only by limits of the sandbox itself. The result says which
 * limit was broken, from before the end of the process.
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

/** Ends the processes inside first, so that none is left when the confining process has ended. */
async function end(child: ManagedProcess): Promise<void> {
  await signalDescendants(child.pid, "SIGKILL");
  await settlesWithin(child.exited, killMs);
  await child.stop({ stdinMs: 0, termMs: 0 });
}

/** A size in MB of 1024 * 1024 bytes, as in the spec. */
export function inMegabytes(bytes: number): string {
  const megabytes = bytes / 1024 / 1024;
  return `${megabytes < 10 ? megabytes.toFixed(1) : Math.ceil(megabytes)} MB`;
}

type Check = (spec: SandboxSpec, signal: AbortSignal) => Promise<void>;

/** Remembers for which specs a check succeeded, as far as they differ in what can be unavailable. Failures are tried again. */
export function checkOnce(check: Check): Check {
  const passed = new Set<string>();
  return async (spec, signal) => {
    signal.throwIfAborted();
    const key = JSON.stringify([spec.network, spec.image, spec.runtime]);
    if (passed.has(key)) return;
    await check(spec, signal);
    passed.add(key);
  };
}

/** Starts a confined program. */
export type Start = (confinement: Confinement) => Promise<ConfinedProcess>;

/** The output of a program that has ended, trimmed. */
export interface Tried {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Longest run of a program that does nothing, in milliseconds. */
const longest = 10_000;

/** Runs a program that does nothing in a sandbox. Throws McpvalsError `sandbox/unavailable`, and the signal's reason. */
export async function tryNothing(spec: SandboxSpec, signal: AbortSignal, start: Start): Promise<Tried> {
  const process = { command: "/bin/sh", args: ["-c", "exit 0"], env: {}, cwd: "/tmp" };
  return runToEnd(await start({ process, read: [], write: [], spec }), signal, longest);
}

/** Collects the output of a program until it ends. Throws McpvalsError `sandbox/unavailable` after `ms`, and the signal's reason. */
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

/** A sandbox that this platform does not have: it refuses everything. */
export function unavailable(kind: SandboxSpec["kind"], reason: string): Sandbox {
  const refuse = (): Promise<never> =>
    Promise.reject(
      new McpvalsError("sandbox/unavailable", reason, {
        hint: "Choose another sandbox, or none for extensions that you trust.",
      }),
    );
  return { kind, check: refuse, start: refuse };
}
