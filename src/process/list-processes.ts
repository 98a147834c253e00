import { execFile, execFileSync } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync, statSync } from "node:fs";
import { devNull } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";

/** One living process, as far as it matters for finding a process tree. */
export interface ProcessInfo {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** When it started; only comparable within one machine. Tells a process from a later one with the same number. */
  readonly started: number;
}

/** Lists the processes of this machine. */
export interface ProcessLister {
  list(): Promise<readonly ProcessInfo[]>;
  listNow(): readonly ProcessInfo[];
  /** Start time of one process, where that is cheap; also of one that has ended and is not reaped. */
  startOf(pid: number): number | undefined;
  /**
   * Whether a process was started with `NAME=value` in its environment; false where that is not visible. Undefined when it shows
   * no environment at all, as during `exec`.
   */
  carries(pid: number, variable: string): boolean | undefined;
}

/** Chooses how processes are listed here: from /proc on Linux, with `ps` on other POSIX systems. */
export function processLister(platform: NodeJS.Platform = process.platform): ProcessLister {
  return platform === "linux" ? procLister : psLister;
}

/**
 * Reads /proc: about 10 microseconds a process. Zombies are left out. A file descriptor is reserved, since a process that cannot
 * be read because too many files are open would look as if it had ended.
 */
export const procLister: ProcessLister = {
  list: async () => withSpareFile(listProc),
  listNow: () => withSpareFile(listProc),
  startOf(pid) {
    keepSpareFile();
    return unseen(() => readStat(String(pid), { ended: true })?.started);
  },
  carries: (pid, variable) => unseen(() => carries(pid, variable)),
};

/** Undefined when no file descriptor is left. */
function unseen<T>(look: () => T): T | undefined {
  try {
    return withSpareFile(look);
  } catch (error) {
    if (isOutOfFiles(error)) return undefined;
    throw error;
  }
}

function carries(pid: number, variable: string): boolean | undefined {
  try {
    const environment = readFileSync(`/proc/${pid}/environ`, "latin1");
    return environment === "" ? undefined : `\0${environment}`.includes(`\0${variable}\0`);
  } catch (error) {
    if (isOutOfFiles(error)) throw error;
    return false; // ended meanwhile, or another user's
  }
}

function listProc(): ProcessInfo[] {
  return readdirSync("/proc").flatMap((name) => (/^[1-9]/.test(name) ? (readStat(name) ?? []) : []));
}

/** One `stat` line fits easily; the buffer is shared because reading is synchronous. */
const statBuffer = Buffer.allocUnsafe(4096);

function readStat(pid: string, { ended } = { ended: false }): ProcessInfo | undefined {
  let text: string;
  try {
    const file = openSync(`/proc/${pid}/stat`, "r");
    try {
      text = statBuffer.toString("latin1", 0, readSync(file, statBuffer, 0, statBuffer.length, 0));
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (isOutOfFiles(error)) throw error;
    return undefined; // it ended meanwhile
  }
  // The second field is the program's name in brackets, and the name may contain brackets and blanks.
  const [state, parent, group, ...rest] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  if (!ended && (state === "Z" || state === "X")) return undefined;
  return { pid: Number(pid), parent: Number(parent), group: Number(group), started: Number(rest[16]) };
}

const psArguments = ["-axo", "pid=,ppid=,pgid=,stat=,lstart="];
const psOptions = { env: { LC_ALL: "C", PATH: "/bin:/usr/bin" }, timeout: 2000, maxBuffer: 2 ** 26 };

/** Asks `ps`, as macOS and the BSDs need it. It does not show environments. */
export const psLister: ProcessLister = {
  async list() {
    return parsePs((await promisify(execFile)("ps", psArguments, psOptions)).stdout);
  },
  listNow: () =>
    parsePs(
      execFileSync("ps", psArguments, { ...psOptions, stdio: ["ignore", "pipe", "ignore"] }).toString(),
    ),
  startOf: () => undefined,
  carries: () => false,
};

function parsePs(text: string): ProcessInfo[] {
  return text.split("\n").flatMap((line) => {
    const [, pid, parent, group, state, started] =
      /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.+)$/.exec(line) ?? [];
    if (started === undefined || state?.startsWith("Z") === true) return [];
    return [
      { pid: Number(pid), parent: Number(parent), group: Number(group), started: Date.parse(started.trim()) },
    ];
  });
}

/** The descendants of a process, by parent number. */
export function descendantsOf(root: number, all: readonly ProcessInfo[]): readonly ProcessInfo[] {
  return [
    ...withDescendants(
      all.filter(({ parent }) => parent === root),
      all,
    ).values(),
  ];
}

/** Processes with their descendants, by number. */
export function withDescendants(
  roots: readonly ProcessInfo[],
  all: readonly ProcessInfo[],
): Map<number, ProcessInfo> {
  const children = Map.groupBy(all, ({ parent }) => parent);
  const found = new Map(roots.map((info) => [info.pid, info]));
  // A Map's iterator also visits what is added on the way.
  for (const pid of found.keys()) {
    for (const child of children.get(pid) ?? []) found.set(child.pid, child);
  }
  return found;
}

/**
 * Signals all descendants of a process, nearest first. Never throws: processes that have ended are ignored.
 */
export async function signalDescendants(root: number, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  for (const { pid } of descendantsOf(root, await listOrNone())) {
    try {
      process.kill(pid, signal);
    } catch {
      continue;
    }
  }
}

/** Living processes; none where they cannot be listed now, as without `ps`. */
function listOrNone(): Promise<readonly ProcessInfo[]> {
  return processLister()
    .list()
    .catch(() => []);
}

/** A process number with a start time, which tells it from a later process with the same number. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Absent where it is not available cheaply. */
  readonly started?: number;
}

/** The identity of this process. */
export function ownIdentity(): ProcessIdentity {
  const started = processLister().startOf(process.pid);
  return { pid: process.pid, ...(started === undefined ? {} : { started }) };
}

/** Whether a process with this identity lives that is not this one. */
export function livesElsewhere({ pid, started }: ProcessIdentity): boolean {
  if (pid === process.pid || !answers(pid)) return false;
  const found = processLister().startOf(pid);
  return found === undefined || started === undefined || found === started;
}

function answers(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

let spare: number | undefined;

/** Reserves a file descriptor for {@link withSpareFile}, if there is one left. */
function keepSpareFile(): void {
  if (spare !== undefined) return;
  try {
    spare = openSync(devNull, "r");
  } catch {
    spare = undefined;
  }
}

/**
 * Runs `work`, which opens one file at a time, with the reserved descriptor when no other is left. Throws what `work` throws.
 */
function withSpareFile<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (spare === undefined || !isOutOfFiles(error)) throw error;
    closeSync(spare);
    spare = undefined;
    try {
      return work();
    } finally {
      keepSpareFile();
    }
  }
}

/** Whether this process or the machine has too many files open. */
function isOutOfFiles(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "EMFILE" || error.code === "ENFILE");
}

/**
 * The memory of processes together in bytes, without mapped files. Shared pages are first counted for each process, which is
 * cheap; only when that is more than `enough` bytes, they are counted once. On other systems than Linux they are always counted
 * for each process. Processes that have ended count nothing.
 */
export async function memoryOf(pids: readonly number[], enough: number): Promise<number> {
  if (process.platform !== "linux") return residentByPs(pids);
  const roughly = sum(pids.map(residentOf));
  if (roughly <= enough) return roughly;
  return sum(pids.map((pid) => shareOf(pid) ?? residentOf(pid)));
}

/** Memory of one process, shared pages included. */
function residentOf(pid: number): number {
  return memoryFields(pid, "status", "RssAnon", "RssShmem") ?? 0;
}

/** Memory of one process, with its share of shared pages; undefined when it is not readable. */
function shareOf(pid: number): number | undefined {
  const file = "smaps_rollup";
  return memoryFields(pid, file, "Pss_Anon", "Pss_Shmem") ?? memoryFields(pid, file, "Pss");
}

/** The sum of lines such as `RssAnon:    1234 kB` in bytes; undefined when there are none, or the file is not readable. */
function memoryFields(pid: number, file: string, ...names: readonly string[]): number | undefined {
  const text = attempt(() => withSpareFile(() => readFileSync(`/proc/${pid}/${file}`, "latin1"))) ?? "";
  const lines = text.matchAll(/^(\w+):\s+(\d+) kB$/gm);
  const found = [...lines].flatMap(([, name = "", kilobytes]) =>
    names.includes(name) ? Number(kilobytes) : [],
  );
  return found.length === 0 ? undefined : sum(found) * 1024;
}

async function residentByPs(pids: readonly number[]): Promise<number> {
  try {
    const args = ["-o", "rss=", "-p", pids.join(",")];
    const { stdout } = await promisify(execFile)("ps", args, psOptions);
    return sum(stdout.trim().split(/\s+/).map(Number)) * 1024;
  } catch {
    return 0; // none of them lives any more
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/**
 * Bytes of anonymous files in memory (`memfd_create`) that processes hold open, beyond the shared memory that they have mapped,
 * which {@link memoryOf} counts. Linux only.
 */
export function openMemoryOf(pids: readonly number[]): number {
  /** By device and inode. */
  const sizes = new Map<string, number>();
  for (const pid of pids) {
    for (const name of attempt(() => readdirSync(`/proc/${pid}/fd`)) ?? []) {
      const path = `/proc/${pid}/fd/${name}`;
      if (attempt(() => readlinkSync(path))?.startsWith("/memfd:") !== true) continue;
      const file = attempt(() => statSync(path));
      if (file !== undefined) sizes.set(`${file.dev}:${file.ino}`, file.blocks * 512);
    }
  }
  if (sizes.size === 0) return 0;
  const mapped = pids.map((pid) => memoryFields(pid, "status", "RssShmem") ?? 0);
  return Math.max(0, sum([...sizes.values()]) - sum(mapped));
}

/** Undefined when the process has ended or is not readable. */
function attempt<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

/** Shortest and longest pause between two listings, in milliseconds. */
const shortest = 20;
const longest = 500;
/** A listing may take one part in so many of the time. */
const share = 20;

type OnLook = (descendants: readonly ProcessInfo[]) => Promise<void>;

const watched = new Map<object, { readonly pid: number; readonly onLook: OnLook }>();

/**
 * Calls back with the descendants of a process until it is disposed of: every 20 milliseconds, and less often where listing is
 * expensive. All watched processes share one listing. The callback must not throw.
 */
export function watchTree(pid: number, onLook: OnLook): Disposable {
  const key = {};
  watched.set(key, { pid, onLook });
  if (!isWatching) void watch();
  return { [Symbol.dispose]: () => void watched.delete(key) };
}

let isWatching = false;

async function watch(): Promise<void> {
  isWatching = true;
  while (watched.size > 0) {
    const started = performance.now();
    const all = await listOrNone();
    for (const { pid, onLook } of watched.values()) await onLook(descendantsOf(pid, all));
    const cost = performance.now() - started;
    // It does not keep this process alive.
    await delay(Math.min(longest, Math.max(shortest, cost * share)), undefined, { ref: false });
  }
  isWatching = false;
}
