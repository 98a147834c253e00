import { PosixProcessTree } from "./posix-process-tree.ts";
import type { ProcessTree, TreeRoot } from "./process-tree.ts";
import { WindowsProcessTree } from "./windows-process-tree.ts";

/** Takes charge of what a process has started and will start, in the way that this platform allows. */
export function createProcessTree(root: TreeRoot): ProcessTree {
  return process.platform === "win32" ? new WindowsProcessTree(root) : new PosixProcessTree(root);
}
