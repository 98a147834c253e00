import { execFile, execFileSync } from "node:child_process";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { type ProcessInfo, type ProcessLister, processLister, withDescendants } from "./list-processes.ts";

/** The first process of a tree. */
export interface TreeRoot {
  readonly pid: number;
  /** `NAME=value` in the environment of every process of the tree. */
  readonly marker: string;
  /** Whether the first process has ended, so that its number may belong to another one. */
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

/** Creates the tree of a process for this platform. */
export function createProcessTree(root: TreeRoot): ProcessTree {
  return process.platform === "win32" ? windowsTree(root) : new PosixProcessTree(root);
}

/** How often a kill is repeated for processes that were started while it was going on. */
const killRounds = 5;
/** Pauses before processes without a visible environment are checked again, in milliseconds. */
const doubtPauses = [1, 2, 4, 8, 16, 32];

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
  /** Whether the last listing left out a process that may be a member. */
  #doubtful = false;

  constructor(root: TreeRoot, lister: ProcessLister = processLister()) {
    this.#root = root;
    this.#lister = lister;
    this.#rootStarted = lister.startOf(root.pid);
  }

  async survey(): Promise<number> {
    let count = this.#members(await this.#list()).length;
    for (const pause of doubtPauses) {
      if (count > 0 || !this.#doubtful) break;
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
        const members = this.#members(this.#lister.listNow());
        if (members.length === 0) return;
        for (const { pid } of members) send(pid, "SIGKILL");
      }
    } catch {
      return; // no `ps` here
    }
  }

  /** Without `ps`, only the group can be reached. */
  #list(): Promise<readonly ProcessInfo[]> {
    return this.#lister.list().catch(() => []);
  }

  /** Signals the group in one step, which forking cannot outrun. Only while the number is certainly the root's. */
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
    this.#doubtful = false;
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

  /** Reading an environment is expensive, and no older process can be a descendant. */
  #carriesMarker({ pid, group, started }: ProcessInfo): boolean {
    if (this.#rootStarted === undefined || started < this.#rootStarted) return false;
    const carries = this.#lister.carries(pid, this.#root.marker);
    // The kernel's own threads, which are in no group, never have an environment.
    if (carries === undefined && group !== 0) this.#doubtful = true;
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
 * A tree as `taskkill /T` sees it: descendants by parent number, for as long as the root lives. Windows has no signal that
 * asks a console program to end, so SIGTERM does nothing and the caller goes on to SIGKILL.
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

/**
 * Kills every managed process with all its descendants before it returns; for a second Ctrl-C and for the exit of this process.
 * Never throws.
 */
export function killAllNow(): void {
  for (const tree of live) tree.killNow();
}

/** How long descendants may take to notice that the first process has gone. */
const settleMs = 200;
/** Longest wait for the kernel to carry out SIGKILL; a process in the middle of a disk access takes a while. */
export const killMs = 2000;

/**
 * Ends what outlives the first process of a tree, and gives how many processes did not end by themselves: SIGTERM, then
 * SIGKILL, which comes at once without patience.
 */
export async function endSurvivors(tree: ProcessTree, patienceMs: number): Promise<number> {
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

/** Settles when a stream has nothing more to give. */
export function closed(stream: Readable): Promise<void> {
  return new Promise((resolve) => {
    if (stream.closed || stream.readableEnded) resolve();
    else stream.once("close", () => resolve());
  });
}
