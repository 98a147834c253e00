import { statfsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { release } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { McpvalsError } from "../base/error.ts";
import type { SandboxSpec } from "../model/sandbox.ts";
import { findProgram } from "../process/environment.ts";
import {
  killMs,
  type ProcessInfo,
  processLister,
  signalDescendants,
  watchTree,
} from "../process/process-tree.ts";
import { type ManagedProcess, type ProcessSpec, spawnProcess } from "../process/spawn.ts";
import { type Mount, type MountPlan, planMounts } from "./mounts.ts";
import {
  checkOnce,
  confined,
  type ConfinedProcess,
  type Confinement,
  type Sandbox,
  threadsEach,
  tryNothing,
  watchLimits,
} from "./sandbox.ts";

/** Arguments and the filter of system calls are in file descriptors that `spawnProcess` opens. */
const fromFiles = ["--args", "3", "--seccomp", "4"];
/** Since which version of Linux processes are counted for each user namespace. */
const countingSince: readonly [number, number] = [5, 14];
/** For Node, which reserves half a gigabyte of data for each thread that runs JavaScript. */
const dataRoom = 4 * 1024 ** 3;

/**
 * Confines with bubblewrap, by namespaces of the kernel: unlisted files do not exist inside. The limits:
 * - the kernel starts no more processes and threads than {@link threadsEach} for each process that is allowed (RLIMIT_NPROC, where
 *   there is `prlimit`; not for root, whom it does not limit);
 * - total memory, including files in memory, and the number of processes are polled many times a second; exceeding them ends everything
 *   inside; memory that no process has mapped (memfd, shared memory of System V, data in sockets) is not counted;
 * - one process gets at most 4 GiB over the memory limit between two polls (RLIMIT_DATA);
 * - `/tmp`, `/dev/shm` and a home folder outside of `/tmp` hold half of the memory each;
 * - core dumps are off. Processors and time are not limited here.
 *
 * Everything inside ends with the first process of the sandbox, and with mcpvals. With `network: host` the abstract sockets
 * of this machine can be reached too, and a socket in a listed folder can be reached in any case.
 */
export const bubblewrap: Sandbox = {
  kind: "process",
  check: checkOnce(checkBubblewrap),
  start: startBubblewrap,
};

async function startBubblewrap(confinement: Confinement): Promise<ConfinedProcess> {
  const { process, spec } = confinement;
  const [program, plan] = await Promise.all([findBubblewrap(), planMounts(confinement)]);
  const { env: own } = process;
  const counting = await countingArguments(spec.processes, own);
  const env = counting.length === 0 ? own : withoutLoader(own);
  const inside = bubblewrapArguments({ ...process, env }, plan, spec);
  // A NUL ends an argument: the rest of a variable would become arguments of bubblewrap.
  if (inside.some((argument) => argument.includes("\0"))) {
    const message = "a variable or a path of a confined program contains a NUL byte";
    throw new McpvalsError("server/spawn-failed", message);
  }
  const command = [...counting, plan.command, ...process.args];
  const child = await spawnProcess(outside([...joining(spec), program], command, spec.memoryBytes), {
    given: [inside.map((argument) => `${argument}\0`).join(""), withoutKeys()],
    signal: signalDescendants,
  });
  const besides = memoryFileBytes(child.pid, plan.mounts);
  return confined(child, {
    // The only process of bubblewrap itself is its init process inside.
    brokenLimit: watchLimits({ child, spec, own: 1, besides }),
    cleanUp: namespaceEnd(child),
  });
}

/**
 * What limits the processes of a program and then becomes it, inside the sandbox; none where that is not possible. Only the program gets
 * the variables of the dynamic linker.
 */
async function countingArguments(
  processes: number,
  env: Readonly<Record<string, string>>,
): Promise<readonly string[]> {
  const [major = 0, minor = 0] = release().split(".").map(Number);
  const [since, after] = countingSince;
  const isCounted = major > since || (major === since && minor >= after);
  const program = await findProgram("prlimit", { env: { PATH: "/usr/bin:/bin" }, cwd: "/" });
  if (!isCounted || program === undefined) return [];
  // It cannot be raised.
  const limits = await readFile("/proc/self/limits", "utf8").catch(() => "");
  const most = Number(/^Max processes +\S+ +(\d+)/m.exec(limits)?.[1] ?? Infinity);
  const linking = Object.entries(env).filter(([name]) => isLoaderVariable(name));
  return [
    program,
    `--nproc=${Math.min(processes * threadsEach, most)}`,
    "--",
    ...(linking.length === 0 ? [] : ["/usr/bin/env", ...linking.map((entry) => entry.join("="))]),
  ];
}

function withoutLoader(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !isLoaderVariable(name)));
}

function isLoaderVariable(name: string): boolean {
  return name.startsWith("LD_");
}

/**
 * The command that becomes bubblewrap. Its environment has no variables of the program, such as LD_PRELOAD, which would take
 * effect outside, and no markers of mcpvals, since it can be read inside.
 */
function outside(program: readonly string[], command: readonly string[], memoryBytes: number): ProcessSpec {
  const kilobytes = Math.ceil((memoryBytes + dataRoom) / 1024);
  const script = 'ulimit -c 0; ulimit -d "$1" 2>/dev/null; shift; exec "$@"';
  const clean = ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", ...program, ...fromFiles, "--", ...command];
  return {
    command: "/bin/sh",
    args: ["-c", script, "sandbox", String(kilobytes), ...clean],
    env: { PATH: "/usr/bin:/bin" },
    cwd: "/",
  };
}

/** What joins the network of a spec and then becomes a command, which has none of the rights in it; nothing where it names none. */
function joining({ namespaces }: Pick<SandboxSpec, "namespaces">): readonly string[] {
  if (namespaces === undefined) return [];
  const { user, net } = namespaces;
  return ["nsenter", "--preserve-credentials", `--user=${user}`, `--net=${net}`, "--"];
}

/**
 * The arguments of bubblewrap that confine a program, without the program, for `--args`: they contain its environment, which must not
 * be in a command line. The program also gets PWD, which bubblewrap always sets.
 */
function bubblewrapArguments(
  { env, cwd }: Pick<ProcessSpec, "env" | "cwd">,
  { mounts, home }: MountPlan,
  { network, namespaces }: Pick<SandboxSpec, "network" | "namespaces">,
): readonly string[] {
  const variables = { HOME: home, ...env };
  return [
    ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
    network === "host" || namespaces !== undefined ? [] : "--unshare-net",
    ["--disable-userns", "--cap-drop", "ALL", "--new-session", "--die-with-parent"],
    mounts.flatMap(mountArguments),
    // /proc/1/exe would be the file of bubblewrap outside, whose mode root could change.
    ["--perms", "0555", "--size", "4096", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"],
    // Folders that bubblewrap makes for mounts are in memory without a limit.
    ["--remount-ro", "/dev", "--remount-ro", "/"],
    // Root may change settings of the system there even without capabilities.
    ["--remount-ro", "/proc", "--clearenv"],
    Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]),
    ["--chdir", cwd],
  ].flat();
}

function mountArguments(mount: Mount): readonly string[] {
  switch (mount.kind) {
    case "read":
      return ["--ro-bind", mount.source, mount.at];
    case "write":
      return ["--bind", mount.source, mount.at];
    case "link":
      return ["--symlink", mount.target, mount.at];
    case "memory":
      return ["--perms", "1777", "--size", String(mount.size), "--tmpfs", mount.at];
    case "folder":
      return ["--perms", "0700", "--dir", mount.at];
    case "proc":
      return ["--proc", mount.at];
    case "devices":
      return ["--dev", mount.at];
  }
}

/** Absolute path of bubblewrap, which the PATH of an extension must not choose. Throws `sandbox/unavailable`. */
export async function findBubblewrap(): Promise<string> {
  const env = { PATH: "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin" };
  const path = await findProgram("bwrap", { env, cwd: "/" });
  if (path !== undefined) return path;
  throw new McpvalsError("sandbox/unavailable", "bubblewrap is not installed (no bwrap in /usr/bin)", {
    hint: "Install it: apt install bubblewrap, dnf install bubblewrap, apk add bubblewrap or pacman -S bubblewrap.",
  });
}

/** Runs a program that does nothing. Throws McpvalsError `sandbox/unavailable`, and the signal's reason. */
async function checkBubblewrap(spec: SandboxSpec, signal: AbortSignal): Promise<void> {
  const { exitCode, stderr } = await tryNothing(spec, signal, startBubblewrap);
  if (exitCode === 0) return;
  const isOld = /unknown option|requires --unshare-user/i.test(stderr);
  const reason = `${isOld ? "it is too old: " : ""}${stderr || "it ended without an error message"}`;
  throw new McpvalsError("sandbox/unavailable", `bubblewrap does not work here: ${reason}`, {
    hint: isOld ? "Install bubblewrap 0.8 or newer." : await namespaceHint(),
  });
}

/** Settings of the kernel, with the values that forbid user namespaces. */
const forbidding: readonly (readonly [setting: string, value: string, hint: string])[] = [
  [
    "kernel/unprivileged_userns_clone",
    "0",
    "User namespaces are forbidden here: sysctl kernel.unprivileged_userns_clone=1 allows them.",
  ],
  [
    "user/max_user_namespaces",
    "0",
    "User namespaces are forbidden here: sysctl user.max_user_namespaces=10000 allows them.",
  ],
  [
    "kernel/apparmor_restrict_unprivileged_userns",
    "1",
    "AppArmor allows user namespaces only to programs with a profile that says so: install one for bwrap (package apparmor-profiles has bwrap-userns-restrict), or sysctl kernel.apparmor_restrict_unprivileged_userns=0.",
  ],
];

async function namespaceHint(): Promise<string> {
  for (const [name, value, hint] of forbidding) {
    // Not every kernel has each setting.
    const text = await readFile(`/proc/sys/${name}`, "utf8").catch(() => "");
    if (text.trim() === value) return hint;
  }
  return "It must be allowed to make user namespaces. In a container that often takes --security-opt seccomp=unconfined and --security-opt systempaths=unconfined.";
}

/** Type of `tmpfs` in `statfs`. */
const inMemory = 0x01021994;
/** Memory of an empty file, in bytes. */
const emptyFile = 1024;

/**
 * Gives a function that measures the files in memory of a sandbox, in bytes, from its processes. Unreadable file systems count as 0;
 * then only their sizes limit them.
 */
function memoryFileBytes(
  pid: number,
  mounts: readonly Mount[],
): (descendants: readonly ProcessInfo[]) => number {
  const folders = mounts.filter((mount) => mount.kind === "memory");
  return (descendants) => {
    const inside = descendants.find(({ parent }) => parent === pid);
    if (inside === undefined) return 0;
    return folders.reduce(
      (total, { at, size }) => total + usedBytes(`/proc/${inside.pid}/root${at}`, size),
      0,
    );
  };
}

/** 0 for a folder of another size: while a sandbox is being set up, its folders are still those of this machine. */
function usedBytes(path: string, size: number): number {
  try {
    const { type, bsize, blocks, bfree, files, ffree } = statfsSync(path);
    if (type !== inMemory || blocks * bsize !== size) return 0;
    return (blocks - bfree) * bsize + (files - ffree) * emptyFile;
  } catch {
    return 0; // it has ended, or cannot be read
  }
}

/**
 * Gives a function that waits until everything in a sandbox has ended, after the first process: the kernel ends the rest a
 * moment later, the init process of bubblewrap last. It does not wait for a program that ended before the first poll.
 */
function namespaceEnd(child: ManagedProcess): () => Promise<void> {
  let init: ProcessInfo | undefined;
  const watch = watchTree(child.pid, async (descendants) => {
    init = descendants.find(({ parent }) => parent === child.pid);
    if (init !== undefined) watch[Symbol.dispose]();
  });
  void child.exited.then(() => watch[Symbol.dispose]());
  return async () => {
    if (init === undefined) return;
    const { pid, started } = init;
    for (const end = performance.now() + killMs; performance.now() < end; await delay(2)) {
      const all = await processLister().list();
      if (!all.some((each) => each.pid === pid && each.started === started)) return;
    }
  };
}

/**
 * A filter of system calls for bubblewrap's `--seccomp`, which hides the kernel's keyrings: they belong to the user and are in
 * no namespace. On processors that are not listed it allows everything.
 */
export function withoutKeys(): Buffer {
  const tests = calls.flatMap(({ architecture, numbers }) => testsOf(architecture, numbers));
  return Buffer.concat([load(architectureAt), ...tests, end(allow)]);
}

/** Numbers of add_key, request_key and keyctl, without the bit of the x32 ABI. */
const calls: readonly { readonly architecture: number; readonly numbers: readonly number[] }[] = [
  { architecture: 0xc000003e, numbers: [248, 249, 250] }, // x86-64
  { architecture: 0x40000003, numbers: [286, 287, 288] }, // 32 bit on it
  { architecture: 0xc00000b7, numbers: [217, 218, 219] }, // arm64
  { architecture: 0x40000028, numbers: [309, 310, 311] }, // 32 bit on it
];

/** Offsets in `struct seccomp_data`. */
const numberAt = 0;
const architectureAt = 4;
const allow = 0x7fff0000;
/** Fails with ENOSYS, as an unknown call does. */
const unknownCall = 0x00050000 | 38;
const x32Bit = 0x40000000;

/** Tests for one architecture, skipped for another one. */
function testsOf(architecture: number, numbers: readonly number[]): readonly Buffer[] {
  const checks = numbers.map((number, index) => equal(number, numbers.length - index, 0));
  const body = [load(numberAt), and(~x32Bit >>> 0), ...checks, end(allow), end(unknownCall)];
  return [equal(architecture, 0, body.length), ...body];
}

/** Instructions of the classic Berkeley packet filter. */
const load = (offset: number): Buffer => instruction(0x20, offset);
const and = (mask: number): Buffer => instruction(0x54, mask);
const end = (action: number): Buffer => instruction(0x06, action);
/** `then` and `otherwise` are numbers of instructions to skip. */
const equal = (value: number, then: number, otherwise: number): Buffer =>
  instruction(0x15, value, then, otherwise);

function instruction(code: number, value: number, then = 0, otherwise = 0): Buffer {
  const bytes = Buffer.from([code, 0, then, otherwise, 0, 0, 0, 0]);
  bytes.writeUInt32LE(value, 4);
  return bytes;
}
