import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";

/**
 * How many bytes the files in memory without a name (`memfd_create`) have that processes hold open, over what of shared memory
 * they have mapped, which counts as their own. Linux; what cannot be seen counts nothing.
 */
export function openMemoryOf(pids: readonly number[]): number {
  const sizes = new Map<string, number>();
  for (const pid of pids) for (const [file, bytes] of openMemory(pid)) sizes.set(file, bytes);
  if (sizes.size === 0) return 0;
  const open = [...sizes.values()].reduce((total, bytes) => total + bytes, 0);
  return Math.max(0, open - pids.reduce((total, pid) => total + mappedOf(pid), 0));
}

/** By what the system knows each file as. */
function openMemory(pid: number): (readonly [string, number])[] {
  const folder = `/proc/${pid}/fd`;
  return (attempt(() => readdirSync(folder)) ?? []).flatMap((name) => {
    const path = `${folder}/${name}`;
    if (attempt(() => readlinkSync(path))?.startsWith("/memfd:") !== true) return [];
    const file = attempt(() => statSync(path));
    return file === undefined ? [] : [[`${file.dev}:${file.ino}`, file.blocks * 512] as const];
  });
}

function mappedOf(pid: number): number {
  const text = attempt(() => readFileSync(`/proc/${pid}/status`, "latin1")) ?? "";
  return Number(/^RssShmem:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0) * 1024;
}

/** Undefined when it ended meanwhile, or may not be seen. */
function attempt<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
