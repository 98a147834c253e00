import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { withSpareFile } from "./spare-file.ts";

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
