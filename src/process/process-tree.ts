import { execFile, execFileSync } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { type ProcessInfo, type ProcessLister, processLister } from "./list-processes.ts";

/** The first process of a tree, as far as the tree needs to know it. */
export interface TreeRoot {
  readonly pid: number;
  /** `NAME=value` that stands in the environment of every process of the tree. */
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

/** Takes charge of what a process has started and will start, in the way that this platform allows. */
export function createProcessTree(root: TreeRoot): ProcessTree {
  return process.platform === "win32" ? new WindowsProcessTree(root) : new PosixProcessTree(root);
}

/** How often a kill is repeated for processes that were started while it was going on. */
const killRounds = 5;
/** Pauses, in milliseconds, in which processes without an environment may turn out to be members. */
const doubtPauses = [1, 2, 4, 8, 16, 32];

/**
 * A tree is the root's process group, every descendant by parent number, and every process with the root's marker in its
 * environment, so that a descendant that left the group and lost its parent is found too. Whoever was seen once stays a
 * member, also after its parent has gone; start times keep a later process with the same number out.
 */
export class PosixProcessTree implements ProcessTree {
  readonly #root: TreeRoot;
  readonly #lister: ProcessLister;
  #rootStarted: number | undefined;
  #known = new Map<number, ProcessInfo>();
  /** Whether the last look left out a process that may be a member. */
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
    for (let round = 0; round < killRounds; round += 1) {
      const members = this.#members(this.#listNow());
      if (members.length === 0) return;
      for (const { pid } of members) send(pid, "SIGKILL");
    }
  }

  async #list(): Promise<readonly ProcessInfo[]> {
    try {
      return await this.#lister.list();
    } catch {
      return []; // no `ps` here: the group is all that can be reached
    }
  }

  #listNow(): readonly ProcessInfo[] {
    try {
      return this.#lister.listNow();
    } catch {
      return [];
    }
  }

  /** Reaches the group in one step, which nothing can outrun by forking. Only while the number surely is the root's. */
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
    const members = new Map<number, ProcessInfo>();
    const strangers: ProcessInfo[] = [];
    this.#doubtful = false;
    for (const info of all) {
      const seen = this.#known.get(info.pid)?.started === info.started;
      const grouped = !reused && (info.pid === rootPid || info.group === rootPid);
      if (seen || grouped || this.#carriesMarker(info)) members.set(info.pid, info);
      else strangers.push(info);
    }
    addDescendants(members, strangers);
    members.delete(process.pid);
    this.#known = members;
    return [...members.values()];
  }

  /** Reading an environment is the dear part, and no older process can be a descendant. */
  #carriesMarker({ pid, group, started }: ProcessInfo): boolean {
    if (this.#rootStarted === undefined || started < this.#rootStarted) return false;
    const carries = this.#lister.carries(pid, this.#root.marker);
    // The kernel's own threads, which are in no group, never have an environment.
    if (carries === undefined && group !== 0) this.#doubtful = true;
    return carries === true;
  }
}

function addDescendants(members: Map<number, ProcessInfo>, strangers: readonly ProcessInfo[]): void {
  const children = Map.groupBy(strangers, ({ parent }) => parent);
  // A Map's iterator also visits what is added on the way.
  for (const pid of members.keys()) {
    for (const child of children.get(pid) ?? []) members.set(child.pid, child);
  }
}

function send(pid: number, signal: TreeSignal): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended meanwhile, or it changed its user: nothing more can be done from here.
  }
}

/**
 * A tree as `taskkill /T` sees it: descendants by parent number, for as long as the root lives. Windows has no signal that
 * asks a console program to end, so SIGTERM does nothing and the caller goes on to SIGKILL.
 */
class WindowsProcessTree implements ProcessTree {
  readonly #root: TreeRoot;

  constructor(root: TreeRoot) {
    this.#root = root;
  }

  survey(): Promise<number> {
    return Promise.resolve(this.#root.hasExited() ? 0 : 1);
  }

  async signal(signal: TreeSignal): Promise<void> {
    if (signal !== "SIGKILL" || this.#root.hasExited()) return;
    await new Promise<void>((resolve) => {
      // The callback's error says that the process has gone already, which is what is wanted.
      execFile("taskkill", this.#arguments(), { windowsHide: true, timeout: 5000 }, () => resolve());
    });
  }

  killNow(): void {
    if (this.#root.hasExited()) return;
    try {
      execFileSync("taskkill", this.#arguments(), { windowsHide: true, timeout: 5000, stdio: "ignore" });
    } catch {
      // It has gone already.
    }
  }

  #arguments(): string[] {
    return ["/PID", String(this.#root.pid), "/T", "/F"];
  }
}

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
