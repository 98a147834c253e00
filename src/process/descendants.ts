import { type ProcessInfo, processLister } from "./list-processes.ts";

/** Of all processes, those that descend from one by parent number, without itself. */
export function descendantsOf(root: number, all: readonly ProcessInfo[]): readonly ProcessInfo[] {
  const children = Map.groupBy(all, ({ parent }) => parent);
  const found = new Map<number, ProcessInfo>();
  for (const child of children.get(root) ?? []) found.set(child.pid, child);
  // A Map's iterator also visits what is added on the way.
  for (const pid of found.keys()) {
    for (const child of children.get(pid) ?? []) found.set(child.pid, child);
  }
  return [...found.values()];
}

/**
 * Signals everything that descends from a process, nearest first, but not itself. Never throws: what ended meanwhile needs
 * no signal.
 */
export async function signalDescendants(root: number, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  for (const { pid } of descendantsOf(root, await list())) {
    try {
      process.kill(pid, signal);
    } catch {
      continue;
    }
  }
}

async function list(): Promise<readonly ProcessInfo[]> {
  try {
    return await processLister().list();
  } catch {
    return []; // no `ps` here
  }
}
