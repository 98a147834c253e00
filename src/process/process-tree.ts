import { execFile, execFileSync } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { codeOf } from "../base/error.ts";
import { withoutUndefined } from "../base/json.ts";

/** The first process of a tree. */
export interface TreeRoot {
  readonly pid: number;
  /** `NAME=value` in the environment of every process of the tree. */
  readonly marker: string;
  /** Whether the first process has ended, so that another process may have its number. */
  readonly hasExited: () => boolean;
}

export type TreeSignal = "SIGTERM" | "SIGKILL";

/** A managed process with everything that it started. */
export interface ProcessTree {
  /** Counts the living processes of the tree, the first one included, and remembers them. */
  survey(): Promise<number>;
  signal(signal: TreeSignal): Promise<void>;
  /** Kills the whole tree before it returns. Never throws. */
  killNow(): void;
}

export function createProcessTree(root: TreeRoot): ProcessTree {
  return process.platform === "win32" ? windowsTree(root) : new PosixProcessTree(root);
}

/** How often a kill is repeated, for processes that are started meanwhile. */
const killRounds = 5;
/** Pauses before processes without a visible environment are checked again, in milliseconds. */
const recheckPauses = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/**
 * A tree is the root's process group, every descendant by parent number, and every process with the root's marker in its
 * environment, so that a descendant that left the group and lost its parent is found too. A process
 * that was seen once stays a member, also after its parent has ended; start times exclude a later process with the same number.
 */
export class PosixProcessTree implements ProcessTree {
  readonly #root: TreeRoot;
  readonly #lister: ProcessLister;
  #rootStarted: number | undefined;
  #known = new Map<number, ProcessInfo>();
  /** Whether the last listing had a process that may be a member. */
  #isUncertain = false;

  constructor(root: TreeRoot, lister: ProcessLister = processLister()) {
    this.#root = root;
    this.#lister = lister;
    this.#rootStarted = lister.startOf(root.pid);
  }

  async survey(): Promise<number> {
    let count = this.#members(await this.#list()).length;
    for (const pause of recheckPauses) {
      if (count > 0 || !this.#isUncertain) break;
      await delay(pause);
      count = this.#members(await this.#list()).length;
    }
    return count;
  }

  async signal(signal: TreeSignal): Promise<void> {
    const { pid: rootPid } = this.#root;
    const reachedGroup = this.#signalGroup(signal);
    for (const { pid, group } of this.#members(await this.#list())) {
      // A second SIGTERM means "at once" to many programs.
      if (!reachedGroup || group !== rootPid) send(pid, signal);
    }
  }

  killNow(): void {
    this.#signalGroup("SIGKILL");
    try {
      for (let round = 0; round < killRounds; round += 1) {
        const members = this.#members(this.#lister.listNow(this.#rootStarted));
        if (members.length === 0) return;
        for (const { pid } of members) send(pid, "SIGKILL");
      }
    } catch {
      return; // no `ps` here
    }
  }

  /** Without `ps`, only the group can be reached. */
  #list(): Promise<readonly ProcessInfo[]> {
    return this.#lister.list(this.#rootStarted).catch(() => []);
  }

  /** Signals the group at once, so that no fork escapes. Only while the number certainly belongs to the root. */
  #signalGroup(signal: TreeSignal): boolean {
    if (this.#root.hasExited()) return false;
    send(-this.#root.pid, signal);
    return true;
  }

  #members(all: readonly ProcessInfo[]): readonly ProcessInfo[] {
    const { pid: rootPid } = this.#root;
    const root = all.find(({ pid }) => pid === rootPid);
    if (!this.#root.hasExited()) this.#rootStarted ??= root?.started;
    const reused = root !== undefined && root.started !== this.#rootStarted;
    this.#isUncertain = false;
    const found = all.filter((info) => {
      const seen = this.#known.get(info.pid)?.started === info.started;
      const grouped = !reused && (info.pid === rootPid || info.group === rootPid);
      return seen || grouped || this.#carriesMarker(info);
    });
    const members = withDescendants(found, all);
    members.delete(process.pid);
    this.#known = members;
    return [...members.values()];
  }

  /** Reads no environment of an older process, which cannot be a descendant: reading is expensive. */
  #carriesMarker({ pid, group, started }: ProcessInfo): boolean {
    if (this.#rootStarted === undefined || started < this.#rootStarted) return false;
    const carries = this.#lister.carries(pid, this.#root.marker);
    // Threads of the kernel, which have no group, have no environment.
    if (carries === undefined && group !== 0) this.#isUncertain = true;
    return carries === true;
  }
}

function send(pid: number, signal: TreeSignal): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended, or runs as another user.
  }
}

/**
 * A tree by `taskkill /T`: descendants by parent number, as long as the root lives. Windows has no signal that asks a console
 * program to end, so SIGTERM does nothing and the caller goes on to SIGKILL.
 */
function windowsTree({ pid, hasExited }: TreeRoot): ProcessTree {
  const args = ["/PID", String(pid), "/T", "/F"];
  const options = { windowsHide: true, timeout: 5000 };
  return {
    survey: () => Promise.resolve(hasExited() ? 0 : 1),
    async signal(signal) {
      if (signal !== "SIGKILL" || hasExited()) return;
      // An error means that the process has ended already.
      await new Promise<void>((resolve) => {
        execFile("taskkill", args, options, () => resolve());
      });
    },
    killNow() {
      if (hasExited()) return;
      try {
        execFileSync("taskkill", args, { ...options, stdio: "ignore" });
      } catch {
        // It has ended already.
      }
    },
  };
}

const live = new Set<ProcessTree>();
let hooked = false;

/** Kills a tree at the exit of this process, unless {@link forgetTree} is called before. */
export function rememberTree(tree: ProcessTree): void {
  live.add(tree);
  if (hooked) return;
  hooked = true;
  process.on("exit", killAllNow);
}

export function forgetTree(tree: ProcessTree): void {
  live.delete(tree);
}

/** Kills every managed process with all its descendants before it returns, as the exit of this process does. Never throws. */
export function killAllNow(): void {
  for (const tree of live) tree.killNow();
}

/** Time limit for the kernel to carry out SIGKILL; a process in the middle of a disk access takes a while. */
export const killMs = 2000;

/**
 * Ends the processes that outlive the first process of a tree: SIGTERM, and SIGKILL after `patienceMs`; only SIGKILL if that is 0.
 * Gives how many did not end by themselves within `settleMs`.
 */
export async function endSurvivors(tree: ProcessTree, patienceMs: number, settleMs = 200): Promise<number> {
  if ((await tree.survey()) === 0) return 0;
  if (patienceMs > 0 && (await isEmptyWithin(tree, Math.min(settleMs, patienceMs)))) return 0;
  const survivors = await tree.survey();
  if (patienceMs > 0) {
    await tree.signal("SIGTERM");
    if (await isEmptyWithin(tree, patienceMs)) return survivors;
  }
  const end = performance.now() + killMs;
  do await tree.signal("SIGKILL");
  while (!(await isEmptyWithin(tree, 50)) && performance.now() < end);
  return survivors;
}

async function isEmptyWithin(tree: ProcessTree, ms: number): Promise<boolean> {
  const end = performance.now() + ms;
  for (let pause = 2; ; pause = Math.min(pause * 2, 50)) {
    if ((await tree.survey()) === 0) return true;
    const left = end - performance.now();
    if (left <= 0) return false;
    await delay(Math.min(pause, left));
  }
}

/** Settles when a stream has ended or is closed. */
export function closed(stream: Readable): Promise<void> {
  return new Promise((resolve) => {
    if (stream.closed || stream.readableEnded) resolve();
    else stream.once("close", () => resolve());
  });
}

/** A living process. */
export interface ProcessInfo {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** Start time, comparable within one machine. Distinguishes a process from a later one with the same number. */
  readonly started: number;
}

/** Lists the processes of this machine; may leave out those that started before `since`, which saves most of the time. */
export interface ProcessLister {
  list(since?: number): Promise<readonly ProcessInfo[]>;
  listNow(since?: number): readonly ProcessInfo[];
  /** Start time of one process, where that is cheap; also of one that has ended and is not reaped. */
  startOf(pid: number): number | undefined;
  /**
   * Whether a process was started with `NAME=value` in its environment; false if that is not visible. Undefined for an empty
   * environment, as during `exec`.
   */
  carries(pid: number, variable: string): boolean | undefined;
}

/** Chooses how processes are listed here: from /proc on Linux, with `ps` on other POSIX systems. */
export function processLister(): ProcessLister {
  return process.platform === "linux" ? procLister : psLister;
}

/** Reads /proc: 10 to 30 microseconds a process. Zombies are left out. */
export const procLister: ProcessLister = {
  list: async (since) => listProc(since),
  listNow: listProc,
  startOf: (pid) => readStat(String(pid), { ended: true })?.started,
  carries,
};

function carries(pid: number, variable: string): boolean | undefined {
  try {
    const environment = readFileSync(`/proc/${pid}/environ`, "latin1");
    return environment === "" ? undefined : `\0${environment}`.includes(`\0${variable}\0`);
  } catch {
    return false; // ended meanwhile, or another user's
  }
}

/** When processes started, by number. */
const starts = new Map<string, number>();
/** How long start times are kept. Numbers are assigned in turn, so that none is reused so soon. */
const startsMs = 2000;
let startsRead = 0;

function listProc(since = 0): ProcessInfo[] {
  if (performance.now() - startsRead > startsMs) {
    starts.clear();
    startsRead = performance.now();
  }
  return readdirSync("/proc").flatMap((name) => {
    if (!/^[1-9]/.test(name) || (starts.get(name) ?? since) < since) return [];
    const info = readStat(name);
    if (info !== undefined) starts.set(name, info.started);
    return info ?? [];
  });
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
  } catch {
    return undefined; // it ended meanwhile
  }
  // The second field is the program's name in brackets, and the name may contain brackets and blanks.
  const [state, parent, group, ...rest] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  if (!ended && (state === "Z" || state === "X")) return undefined;
  return { pid: Number(pid), parent: Number(parent), group: Number(group), started: Number(rest[16]) };
}

const psArguments = ["-axo", "pid=,ppid=,pgid=,stat=,lstart="];
const psOptions = { env: { LC_ALL: "C", PATH: "/bin:/usr/bin" }, timeout: 2000, maxBuffer: 2 ** 26 };

/** Uses `ps`, for macOS and the BSDs. It does not show environments. */
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
  const children = all.filter(({ parent }) => parent === root);
  return [...withDescendants(children, all).values()];
}

/** Processes with their descendants, by number. */
function withDescendants(
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

/** Signals all descendants of a process, nearest first. Never throws. */
export async function signalDescendants(root: number, signal: TreeSignal): Promise<void> {
  for (const { pid } of descendantsOf(root, await listOrNone())) send(pid, signal);
}

/** Living processes; none if they cannot be listed, as without `ps`. */
function listOrNone(since?: number): Promise<readonly ProcessInfo[]> {
  return processLister()
    .list(since)
    .catch(() => []);
}

/** A process number with a start time, which distinguishes it from a later process with the same number. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Absent where it is not available cheaply. */
  readonly started?: number;
}

export function ownIdentity(): ProcessIdentity {
  return withoutUndefined({ pid: process.pid, started: processLister().startOf(process.pid) });
}

/** Whether another process with this identity lives. */
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
    return codeOf(error) === "EPERM";
  }
}

/**
 * The total memory of processes in bytes, without mapped files. Shared pages are counted for each process, which is cheap; only if that
 * gives more than `enough` bytes, they are counted once. Outside Linux they are always counted for each process.
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

/** Memory of one process, with its share of shared pages; undefined if not readable. */
function shareOf(pid: number): number | undefined {
  const file = "smaps_rollup";
  return memoryFields(pid, file, "Pss_Anon", "Pss_Shmem") ?? memoryFields(pid, file, "Pss");
}

/** The sum of lines such as `RssAnon:    1234 kB` in bytes; undefined without such lines, or if the file is not readable. */
function memoryFields(pid: number, file: string, ...names: readonly string[]): number | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return undefined; // it ended meanwhile, or is another user's
  }
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

/** Pause between two listings, in milliseconds. */
const minPauseMs = 20;
const maxPauseMs = 500;
/** The pause is this many times the duration of the listing. */
const pauseFactor = 20;

type OnListing = (descendants: readonly ProcessInfo[]) => Promise<void>;

const watched = new Map<
  object,
  { readonly pid: number; readonly started: number; readonly onListing: OnListing }
>();

/**
 * Calls back with the descendants of a process until it is disposed of: every 20 milliseconds, and less often where listing is
 * expensive. All watched processes share one listing. The callback must not throw.
 */
export function watchTree(pid: number, onListing: OnListing): Disposable {
  const key = {};
  watched.set(key, { pid, started: processLister().startOf(pid) ?? 0, onListing });
  if (!isWatching) void watch();
  return { [Symbol.dispose]: () => void watched.delete(key) };
}

let isWatching = false;

async function watch(): Promise<void> {
  isWatching = true;
  while (watched.size > 0) {
    const started = performance.now();
    let since = Infinity;
    for (const { started: first } of watched.values()) since = Math.min(since, first);
    const all = await listOrNone(since);
    for (const { pid, onListing } of watched.values()) await onListing(descendantsOf(pid, all));
    const cost = performance.now() - started;
    // Without keeping this process alive.
    await delay(Math.min(maxPauseMs, Math.max(minPauseMs, cost * pauseFactor)), undefined, { ref: false });
  }
  isWatching = false;
}
