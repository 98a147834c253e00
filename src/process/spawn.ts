import { randomUUID } from "node:crypto";
import {
  type ChildProcessWithoutNullStreams,
  spawn,
  type SpawnOptionsWithoutStdio,
} from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync, readdirSync, readFileSync } from "node:fs";
import { access, stat } from "node:fs/promises";
import { Socket } from "node:net";
import { devNull } from "node:os";
import { resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import { codeOf, McpvalsError, messageOf } from "../base/error.ts";
import { settlesWithin } from "./deadline.ts";
import {
  closed,
  createProcessTree,
  endSurvivors,
  forgetTree,
  killMs,
  rememberTree,
  type TreeSignal,
} from "./process-tree.ts";
import {
  guardGroup,
  guardStrays,
  processMarkerName,
  releaseEmptyGroup,
  releaseGroup,
  runMarker,
  runMarkerName,
} from "./watchdog.ts";

export interface ProcessSpec {
  readonly command: string;
  readonly args: readonly string[];
  /** The complete environment; two marker variables are added to it, and `SHLVL` where it is absent. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** How a process ended: one of the two is null. */
export interface ProcessExit {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** How the first process of a tree was ended. */
export type StoppedBy = "stdin" | "SIGTERM" | "SIGKILL" | "already-exited";

export interface StopResult {
  readonly by: StoppedBy;
  readonly durationMs: number;
  /** Number of processes of the tree that did not end by themselves after the first one. */
  readonly survivors: number;
}

export interface StopOptions {
  /** How long the process may take to end after its stdin was closed, in milliseconds. Default: 1000. */
  readonly stdinMs?: number;
  /** How long it may take to end after SIGTERM, in milliseconds. Default: 1000. */
  readonly termMs?: number;
  /** How long its descendants may take to end after it, in milliseconds. Default: 200. */
  readonly settleMs?: number;
}

/** A running program that is stopped together with everything it starts. */
export interface ManagedProcess {
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Settles when the process itself has ended, even if a descendant still holds its pipes. Never rejects. */
  readonly exited: Promise<ProcessExit>;
  /** Undefined while the process lives. */
  readonly exit: ProcessExit | undefined;
  /**
   * Stops the process with everything that it started: closes its stdin, then SIGTERM and SIGKILL to the whole tree, also after the end
   * of the first process. Closes the pipes, so that they do not keep this process alive. Never throws; a second call gives the same
   * promise.
   */
  stop(options?: StopOptions): Promise<StopResult>;
  /** Releases a process whose whole tree has ended, without the waits of `stop`; closes its pipes. False while a process of the tree lives. */
  release(): Promise<boolean>;
}

/** Further options of a program. */
export interface SpawnExtras {
  /**
   * Content of its file descriptors from 3 on, invisible to other processes. It then inherits no other files of this process.
   * Not on Windows.
   */
  readonly given?: readonly (string | Uint8Array)[];
  /**
   * Signals the program instead of its tree, for a process whose own end would kill the program inside. Processes that are left then
   * are signalled as part of the tree.
   */
  readonly signal?: (pid: number, signal: TreeSignal) => Promise<void>;
}

/**
 * Starts a program in a process group of its own. The process exists as soon as this function returns its promise (on Windows a
 * little later). Throws McpvalsError `server/spawn-failed`.
 */
export async function spawnProcess(spec: ProcessSpec, extras: SpawnExtras = {}): Promise<ManagedProcess> {
  const marker = randomUUID();
  const options = {
    cwd: spec.cwd,
    env: { ...nestedShell, ...spec.env, [processMarkerName]: marker, [runMarkerName]: runMarker },
    detached: process.platform !== "win32",
    windowsHide: true,
  };
  try {
    const child =
      process.platform === "win32"
        ? await launchOnWindows(spec, options)
        : launch(spec, options, extras.given);
    // The pid is set at once when there is a process; the event can come late in a busy process.
    if (child.pid === undefined) throw (await once(child, "error"))[0];
    return managed(child, `${processMarkerName}=${marker}`, spec.env["PATH"], extras.signal);
  } catch (error) {
    throw await explainSpawnError(error, spec);
  }
}

/**
 * bash takes a socket on its stdin, which Node's pipes are, for a remote login and runs `~/.bashrc`, unless it is nested in another
 * shell, which a shell level of 1 means.
 */
const nestedShell = { SHLVL: "1" };

type Child = ChildProcessWithoutNullStreams;

function launch(
  { command, args }: ProcessSpec,
  options: SpawnOptionsWithoutStdio,
  given: SpawnExtras["given"],
): Child {
  if (given === undefined) return spawn(command, args, options);
  const nothing = openSync(devNull, "r");
  try {
    const child = spawn(command, args, { ...options, stdio: filesOf(given.length, nothing) });
    for (const [index, content] of given.entries()) write(child.stdio[firstGiven + index], content);
    return child as Child;
  } finally {
    closeSync(nothing);
  }
}

/** The first file descriptor after stderr. */
const firstGiven = 3;

/** Pipes, and an empty file in place of each file that would be inherited. */
function filesOf(given: number, nothing: number): ("pipe" | "ignore" | number)[] {
  const pipes = firstGiven + given;
  const inherited = inheritedFiles();
  const length = Math.max(pipes, ...inherited.map((number) => number + 1));
  return Array.from({ length }, (_, index) => {
    if (index < pipes) return "pipe";
    return inherited.includes(index) ? nothing : "ignore";
  });
}

function write(pipe: unknown, content: string | Uint8Array): void {
  if (!(pipe instanceof Socket)) return;
  // A broken pipe means that the program has ended without reading it.
  pipe.on("error", () => undefined);
  pipe.end(content);
}

/** For shims (.cmd) and shebangs on Windows. The module is loaded only there, since it costs startup time. */
async function launchOnWindows(
  { command, args }: ProcessSpec,
  options: SpawnOptionsWithoutStdio,
): Promise<Child> {
  const { default: crossSpawn } = await import("cross-spawn");
  return crossSpawn(command, [...args], { ...options, stdio: "pipe" }) as Child;
}

/** How long the last output may take to arrive, in milliseconds. */
const drainMs = 100;

function managed(
  child: Child,
  marker: string,
  path: string | undefined,
  signalInside: SpawnExtras["signal"],
): ManagedProcess {
  const { pid = 0, stdin, stdout, stderr } = child;
  const streams = [stdin, stdout, stderr];
  let exit: ProcessExit | undefined;
  let stopping: Promise<StopResult> | undefined;
  const exited = new Promise<ProcessExit>((resolve) => {
    const end = (exitCode: number | null, signal: NodeJS.Signals | null): void => {
      exit ??= { exitCode, signal };
      releaseEmptyGroup(pid);
      resolve(exit);
    };
    child.once("exit", end);
    // cross-spawn reports a command that the Windows shell did not find instead of the shell's exit.
    child.on("error", () => {
      if (child.exitCode !== null) end(child.exitCode, null);
    });
  });
  const tree = createProcessTree({ pid, marker, hasExited: () => exit !== undefined });
  const signal = (name: TreeSignal): Promise<void> => signalInside?.(pid, name) ?? tree.signal(name);
  rememberTree(tree);
  guardGroup(pid, path);
  // A broken pipe means that the program has ended.
  for (const stream of streams) stream.on("error", () => undefined);
  const forget = (): void => {
    for (const stream of streams) stream.destroy();
    forgetTree(tree);
    releaseGroup(pid);
  };
  const endRoot = async (stdinMs: number, termMs: number): Promise<StoppedBy> => {
    // Some descendants can be found only while their parents live.
    await tree.survey();
    const gone = exit !== undefined;
    stdin.end();
    if (gone) return "already-exited";
    if (await settlesWithin(exited, stdinMs)) return "stdin";
    await signal("SIGTERM");
    if (await settlesWithin(exited, termMs)) return "SIGTERM";
    await signal("SIGKILL");
    await settlesWithin(exited, killMs);
    return "SIGKILL";
  };
  const stop = async ({ stdinMs = 1000, termMs = 1000, settleMs }: StopOptions): Promise<StopResult> => {
    const started = performance.now();
    const by = await endRoot(stdinMs, termMs);
    const survivors = await endSurvivors(tree, by === "SIGKILL" ? 0 : termMs, settleMs);
    await settlesWithin(Promise.all([closed(stdout), closed(stderr)]), drainMs);
    forget();
    return { by, durationMs: performance.now() - started, survivors };
  };
  return {
    pid,
    stdin,
    stdout,
    stderr,
    exited,
    get exit() {
      return exit;
    },
    stop(options = {}) {
      stopping ??= stop(options);
      return stopping;
    },
    async release() {
      if (exit === undefined || stopping !== undefined) return false;
      if ((await tree.survey()) > 0) {
        guardStrays();
        return false;
      }
      forget();
      stopping ??= Promise.resolve({ by: "already-exited", durationMs: 0, survivors: 0 });
      return true;
    },
  };
}

type Attempt = Pick<ProcessSpec, "command" | "cwd">;
type Explanation = readonly [message: string, hint: string];

/** The error for a program that could not be started. The system has one error for a missing command and a missing folder. */
export async function explainSpawnError(error: unknown, attempt: Attempt): Promise<McpvalsError> {
  const [message, hint] = (await explainFolder(attempt.cwd)) ?? (await explainCommand(error, attempt));
  return new McpvalsError("server/spawn-failed", message, { hint, cause: error });
}

async function explainFolder(cwd: string): Promise<Explanation | undefined> {
  const hint = "Give a folder that exists and may be entered as cwd.";
  try {
    if (!(await stat(cwd)).isDirectory()) return [`cwd is not a folder: ${cwd}`, hint];
    await access(cwd, constants.X_OK);
    return undefined;
  } catch (error) {
    const reason = codeOf(error) === "ENOENT" ? "does not exist" : "may not be entered";
    return [`cwd ${reason}: ${cwd}`, hint];
  }
}

async function explainCommand(error: unknown, { command, cwd }: Attempt): Promise<Explanation> {
  const code = codeOf(error) ?? "unknown";
  const start = `cannot start ${command}`;
  switch (code) {
    case "ENOENT":
      return explainMissing(command, cwd);
    case "EACCES":
    case "EPERM":
      return [
        `not executable: ${command}`,
        "Name a program, make the file executable (chmod +x), or pass it to its interpreter as an argument.",
      ];
    case "EMFILE":
    case "ENFILE":
      return [
        `${start}: too many files are open (${code})`,
        "Run fewer trials at once (concurrency), or raise the limit (ulimit -n).",
      ];
    case "EAGAIN":
      return [
        `${start}: too many processes are running (EAGAIN)`,
        "Run fewer trials at once (concurrency), or raise the limit (ulimit -u).",
      ];
    default: {
      const reason = messageOf(error);
      return [`${start}: ${reason}`, "Run the same command in a terminal."];
    }
  }
}

async function explainMissing(command: string, cwd: string): Promise<Explanation> {
  const message = `command not found: ${command}`;
  const hasArguments = /\S\s+\S/.test(command);
  const split = "command is one program without arguments: put what follows its name into args.";
  if (!/[/\\]/.test(command)) {
    const hint = "Install it, or give its full path; PATH has no such program.";
    return [message, hasArguments ? split : hint];
  }
  try {
    await access(resolve(cwd, command));
  } catch {
    const hint = `Check the path; it was looked for from ${cwd}.`;
    return [message, hasArguments ? `${split} Else: ${hint}` : hint];
  }
  return [
    `the interpreter of ${command} was not found`,
    "Check the first line of that file, or pass it to its interpreter as an argument.",
  ];
}

/** `O_CLOEXEC` in the flags of an open file in /proc. */
const closedOnExec = 0o2000000;

let found: readonly number[] | undefined;

/**
 * File descriptors above stderr that this process inherited, and its programs would inherit too. Node's own are closed on exec.
 * Determined once; none without /proc.
 */
function inheritedFiles(): readonly number[] {
  if (found !== undefined) return found;
  try {
    found = readdirSync("/proc/self/fd").map(Number).filter(isInherited);
  } catch {
    found = []; // no /proc here
  }
  return found;
}

function isInherited(number: number): boolean {
  if (number <= 2) return false;
  try {
    const [, flags = "0"] =
      /^flags:\s+([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${number}`, "latin1")) ?? [];
    return (Number.parseInt(flags, 8) & closedOnExec) === 0;
  } catch {
    return false; // closed meanwhile, such as that of this listing
  }
}

/** Opens an address in the user's browser. Never throws; does nothing without a browser. */
export function openBrowser(address: string): void {
  const [command, ...args] = openers[process.platform] ?? ["xdg-open"];
  const child = spawn(command, [...args, address], { detached: true, stdio: "ignore" });
  child.on("error", () => undefined);
  child.unref();
}

const openers: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ["open"],
  // Not `start`, which is a command of the shell and would read the address as one.
  win32: ["rundll32", "url.dll,FileProtocolHandler"],
};
