import { execFile } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { promisify } from "node:util";
import { withSpareFile } from "./list-processes.ts";

/**
 * How many bytes of memory processes hold together, without what only mirrors files. Pages that several of them share are
 * counted once for each on the first look, which is cheap; when that is more than `enough` bytes, they are counted once.
 * Elsewhere than on Linux they are always counted for each. Processes that have ended count nothing.
 */
export async function memoryOf(
  pids: readonly number[],
  enough: number,
  platform: NodeJS.Platform = process.platform,
): Promise<number> {
  if (platform !== "linux") return residentByPs(pids);
  const roughly = sum(pids.map(residentOf));
  return roughly <= enough ? roughly : sum(pids.map((pid) => shareOf(pid) ?? residentOf(pid)));
}

/** What one process holds, shared or not. */
function residentOf(pid: number): number {
  const text = readProc(pid, "status") ?? "";
  return field(text, "RssAnon") + field(text, "RssShmem");
}

/** What one process holds, of what is shared only its share; undefined when that may not be seen. */
function shareOf(pid: number): number | undefined {
  const text = readProc(pid, "smaps_rollup");
  if (text === undefined || text === "") return undefined;
  return text.includes("\nPss_Anon:")
    ? field(text, "Pss_Anon") + field(text, "Pss_Shmem")
    : field(text, "Pss");
}

function readProc(pid: number, name: string): string | undefined {
  try {
    return withSpareFile(() => readFileSync(`/proc/${pid}/${name}`, "latin1"));
  } catch {
    return undefined; // it ended meanwhile, or it may not be seen
  }
}

/** A line such as `RssAnon:    1234 kB`, in bytes. */
function field(text: string, name: string): number {
  const [, kilobytes = "0"] = new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text) ?? [];
  return Number(kilobytes) * 1024;
}

async function residentByPs(pids: readonly number[]): Promise<number> {
  const args = ["-o", "rss=", "-p", pids.join(",")];
  try {
    const { stdout } = await promisify(execFile)("ps", args, {
      env: { PATH: "/bin:/usr/bin" },
      timeout: 2000,
    });
    return sum(stdout.trim().split(/\s+/).map(Number)) * 1024;
  } catch {
    return 0; // none of them lives any more
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

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
