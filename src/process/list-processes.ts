import { execFile, execFileSync } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { promisify } from "node:util";
import { isOutOfFiles, keepSpareFile, withSpareFile } from "./spare-file.ts";

/** One living process, as far as it matters for finding a process tree. */
export interface ProcessInfo {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** When it started; only comparable within one machine. Tells a process from a later one with the same number. */
  readonly started: number;
}

/** The ways to look at the processes of this machine. */
export interface ProcessLister {
  list(): Promise<readonly ProcessInfo[]>;
  listNow(): readonly ProcessInfo[];
  /** Start time of one process, where it can be had cheaply; also when it has ended and nobody has taken note yet. */
  startOf(pid: number): number | undefined;
  /**
   * Whether a process was started with `NAME=value` in its environment; false where that cannot be seen. Undefined when it
   * shows no environment at all, as in the moment in which it becomes another program.
   */
  carries(pid: number, variable: string): boolean | undefined;
}

/** Chooses how processes are listed here: from /proc on Linux, with `ps` on other POSIX systems. */
export function processLister(platform: NodeJS.Platform = process.platform): ProcessLister {
  return platform === "linux" ? procLister : psLister;
}

/**
 * Reads /proc: about 10 microseconds a process. Zombies are left out. A process that cannot be seen because too many files
 * are open would be taken for one that has ended, so a file is held back for the look.
 */
export const procLister: ProcessLister = {
  list: () => Promise.resolve(listProcNow()),
  listNow: listProcNow,
  startOf(pid) {
    keepSpareFile();
    return unseen(() => readStat(String(pid), { ended: true })?.started);
  },
  carries: (pid, variable) => unseen(() => carries(pid, variable)),
};

/** What a look gives; undefined when there is no file left to look with. */
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

function listProcNow(): ProcessInfo[] {
  return withSpareFile(listProc);
}

function listProc(): ProcessInfo[] {
  const processes: ProcessInfo[] = [];
  for (const name of readdirSync("/proc")) {
    const first = name.charCodeAt(0);
    if (first < 0x31 || first > 0x39) continue;
    const info = readStat(name);
    if (info !== undefined) processes.push(info);
  }
  return processes;
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
  // The second field is the program's name in brackets, and the name may hold brackets and blanks itself.
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
