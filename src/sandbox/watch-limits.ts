import type { SandboxSpec } from "../core/formats/model.ts";
import { settlesWithin } from "../process/deadline.ts";
import { signalDescendants } from "../process/descendants.ts";
import type { ProcessInfo } from "../process/list-processes.ts";
import { memoryOf } from "../process/memory-of.ts";
import type { ManagedProcess } from "../process/spawn.ts";
import { watchTree } from "../process/watch-tree.ts";

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

/** Longest wait for the kernel to carry out SIGKILL, in milliseconds. */
const killMs = 2000;

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
