import type { ProcessTree } from "./process-tree.ts";

const live = new Set<ProcessTree>();
let hooked = false;

/** Remembers a tree until {@link forgetTree}, so that nothing of it outlives this process. */
export function rememberTree(tree: ProcessTree): void {
  live.add(tree);
  if (hooked) return;
  hooked = true;
  process.on("exit", killAllNow);
}

export function forgetTree(tree: ProcessTree): void {
  live.delete(tree);
}

/**
 * Kills every managed process with all its descendants before it returns; for a second Ctrl-C and for the very end of this
 * process. Never throws.
 */
export function killAllNow(): void {
  for (const tree of live) tree.killNow();
}
