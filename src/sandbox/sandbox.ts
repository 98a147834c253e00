import { McpvalsError } from "../base/error.ts";
import type { SandboxSpec } from "../model/sandbox.ts";
import { settlesWithin, withDeadline } from "../process/deadline.ts";
import { killMs, memoryOf, type ProcessInfo, signalDescendants, watchTree } from "../process/process-tree.ts";
import { ProgramOutput } from "../process/program-output.ts";
import type { ManagedProcess, ProcessSpec, StopResult } from "../process/spawn.ts";

/** A program with its permissions. All paths are absolute. */
export interface Confinement {
  /** How it would be started without a sandbox. */
  readonly process: ProcessSpec;
  /** Files and folders that it may read besides those of the system. */
  readonly read: readonly string[];
  /** Folders that it may write. */
  readonly write: readonly string[];
  readonly spec: SandboxSpec;
}

/** A confined program. */
export interface ConfinedProcess extends ManagedProcess {
  /** The exceeded limit for which it was ended; undefined: none. */
  readonly brokenLimit: string | undefined;
}

/** Kernels count each thread as a process; Node has about ten. */
export const threadsEach = 16;

/** One way to confine programs. */
export interface Sandbox {
  readonly kind: SandboxSpec["kind"];
  /** Tries it with a program that does nothing. Throws McpvalsError `sandbox/unavailable` with a hint. */
  check(spec: SandboxSpec, signal: AbortSignal): Promise<void>;
  /**
   * Starts the program. Stopping it ends everything that it started, even detached processes. Throws McpvalsError
   * `server/spawn-failed`, and `sandbox/unavailable`.
   */
  start(confinement: Confinement): Promise<ConfinedProcess>;
}

/** A confined program, given the process that confines it. The callbacks must not throw. */
export function confined(
  child: ManagedProcess,
  {
    brokenLimit,
    onStop,
    cleanUp,
  }: {
    readonly brokenLimit: () => string | undefined;
    readonly onStop?: () => void;
    /** Removes resources that would outlive the process. May be called more than once after its end. */
    readonly cleanUp: () => Promise<void>;
  },
): ConfinedProcess {
  let stopping: Promise<StopResult> | undefined;
  return {
    ...child,
    get exit() {
      return child.exit;
    },
    get brokenLimit() {
      return brokenLimit();
    },
    stop(options) {
      onStop?.();
      stopping ??= child.stop(options).then(async (result) => {
        await cleanUp();
        return result;
      });
      return stopping;
    },
    async release() {
      if (child.exit === undefined || stopping !== undefined) return false;
      await cleanUp();
      return child.release();
    },
  };
}

export interface Limited {
  /** The confining process; its descendants are limited. */
  readonly child: ManagedProcess;
  readonly spec: SandboxSpec;
  /** Number of descendants that belong to the sandbox itself; -1 if the child is the program. */
  readonly own: number;
  /** Memory of the program outside its processes, in bytes, such as files in memory. */
  readonly besides?: (descendants: readonly ProcessInfo[]) => number;
}

/**
 * Polls the processes of a sandbox many times a second, and ends them all when their memory or their number exceeds the limits
 * of the spec. Between two polls only the limits of the sandbox itself hold. The result gives the exceeded limit, already
 * before the process has ended.
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
  { spec, own, child, besides }: Limited,
  descendants: readonly ProcessInfo[],
): Promise<string | undefined> {
  const processes = descendants.length - own;
  if (processes > spec.processes) return `it had ${processes} processes, and may have ${spec.processes}`;
  const pids = [...(own < 0 ? [child.pid] : []), ...descendants.map(({ pid }) => pid)];
  const extra = besides?.(descendants) ?? 0;
  const bytes = extra + (await memoryOf(pids, spec.memoryBytes - extra));
  if (bytes <= spec.memoryBytes) return undefined;
  return `it used ${inMegabytes(bytes)} of memory, and may use ${inMegabytes(spec.memoryBytes)}`;
}

/** Ends the processes inside first, so that none outlives the confining process. */
async function end(child: ManagedProcess): Promise<void> {
  await signalDescendants(child.pid, "SIGKILL");
  await settlesWithin(child.exited, killMs);
  await child.stop({ stdinMs: 0, termMs: 0 });
}

/** A size in MB of 1024 * 1024 bytes. */
export function inMegabytes(bytes: number): string {
  const megabytes = bytes / 1024 / 1024;
  return `${megabytes < 10 ? megabytes.toFixed(1) : Math.ceil(megabytes)} MB`;
}

/** Checks each spec once, as far as specs differ in what can be unavailable. Failures are tried again. */
export function checkOnce(check: Sandbox["check"]): Sandbox["check"] {
  const passed = new Set<string>();
  return async (spec, signal) => {
    signal.throwIfAborted();
    const key = JSON.stringify([spec.network, spec.image, spec.runtime]);
    if (passed.has(key)) return;
    await check(spec, signal);
    passed.add(key);
  };
}

/** How a program ended, with its trimmed output. */
export interface Tried {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program that does nothing in a sandbox. Throws McpvalsError `sandbox/unavailable`, and the signal's reason. */
export async function tryNothing(
  spec: SandboxSpec,
  signal: AbortSignal,
  start: Sandbox["start"],
): Promise<Tried> {
  const process = { command: "/bin/sh", args: ["-c", "exit 0"], env: {}, cwd: "/tmp" };
  return runToEnd(await start({ process, read: [], write: [], spec }), signal, 10_000);
}

/** Collects the output of a program until it ends. Throws McpvalsError `sandbox/unavailable` after `ms`, and the signal's reason. */
export async function runToEnd(child: ManagedProcess, signal: AbortSignal, ms: number): Promise<Tried> {
  const output = new ProgramOutput();
  output.attach(child);
  const onTimeout = (): Error =>
    new McpvalsError("sandbox/unavailable", `trying the sandbox took more than ${ms / 1000} seconds`);
  try {
    const { exitCode } = await withDeadline(async () => child.exited, { ms, signal, onTimeout });
    await output.settle(100);
    return { exitCode, stdout: output.stdout.text.trim(), stderr: output.stderr.text.trim() };
  } finally {
    output.stop();
    await child.stop({ stdinMs: 0, termMs: 0 });
  }
}
