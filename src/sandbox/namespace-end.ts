import { setTimeout as delay } from "node:timers/promises";
import { type ProcessInfo, processLister } from "../process/list-processes.ts";
import type { ManagedProcess } from "../process/spawn.ts";
import { watchTree } from "../process/watch-tree.ts";

/** Longest wait for the kernel to carry out SIGKILL, in milliseconds. */
const killMs = 2000;

/**
 * A function that waits until everything in a bubblewrap sandbox has ended, once the first process has: the kernel ends what
 * is inside a moment later, and the innermost process of bubblewrap last. A program that lived for less than one look at
 * its processes is not waited for; its processes end all the same.
 */
export function namespaceEnd(child: ManagedProcess): () => Promise<void> {
  let innermost: ProcessInfo | undefined;
  const watch = watchTree(child.pid, async (descendants) => {
    innermost = descendants.find(({ parent }) => parent === child.pid);
    if (innermost !== undefined) watch[Symbol.dispose]();
  });
  void child.exited.then(() => watch[Symbol.dispose]());
  return async () => {
    if (innermost !== undefined) await untilGone(innermost);
  };
}

/** One that has ended but that nobody has taken note of is gone: its namespace was emptied before. */
async function untilGone({ pid, started }: ProcessInfo): Promise<void> {
  const end = performance.now() + killMs;
  const lives = async (): Promise<boolean> =>
    (await processLister().list()).some((info) => info.pid === pid && info.started === started);
  while ((await lives()) && performance.now() < end) await delay(2);
}
