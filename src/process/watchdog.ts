import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { renameSync, rmdirSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { codeOf } from "../base/error.ts";

/**
 * Kills the remaining processes when this process was killed itself (SIGKILL), and then restores files. It reads process groups and
 * commands from a pipe, and starts when the pipe is closed. `$1` is the marker of the run; without /proc it finds groups only.
 */
const script = `
trap '' INT TERM HUP QUIT
groups= strays= search= undos=
without() { left=; for one in $2; do [ "$one" = "$1" ] || left="$left $one"; done; }
while read -r order group script; do
  case $order in
    add) groups="$groups $group" ;;
    del) without "$group" "$groups"; groups=$left; without "$group" "$strays"; strays=$left ;;
    empty) without "$group" "$groups"; groups=$left; strays="$strays $group" ;;
    search) search=yes ;;
    undo) undos="$undos $group"; eval "undo_$group=\\$script" ;;
    keep) without "$group" "$undos"; undos=$left; unset "undo_$group" ;;
  esac
done
[ -n "$groups$strays$search$undos" ] || exit 0
for one in $groups; do kill -9 "-$one"; done
[ -z "$groups$strays$search" ] || for round in 1 2 3; do
  for file in $(grep -lsF "$1" /proc/[0-9]*/environ); do
    pid=\${file#/proc/}
    kill -9 "\${pid%/environ}"
  done
done
for one in $undos; do eval "eval \\"\\$undo_$one\\""; done
`;

let pipe: Socket | undefined;

/** Makes the watchdog kill a process group if this process ends without stopping it. `path` is the PATH of the system's tools. */
export function guardGroup(group: number, path: string | undefined): void {
  if (process.platform === "win32") return;
  pipe ??= startWatchdog(path);
  pipe?.write(`add ${group}\n`);
}

/** Makes the watchdog also search for processes with the run's marker. */
export function guardStrays(): void {
  pipe?.write("search\n");
}

/** Undoes {@link guardGroup}: the whole tree has ended. */
export function releaseGroup(group: number): void {
  pipe?.write(`del ${group}\n`);
}

/**
 * Makes the watchdog forget the number of an empty group, since the number may be reused. It still searches for processes that have
 * left the group, until {@link releaseGroup}.
 */
export function releaseEmptyGroup(group: number): void {
  if (pipe === undefined) return;
  try {
    process.kill(-group, 0);
  } catch {
    pipe.write(`empty ${group}\n`);
  }
}

const undos = new Map<number, readonly UndoStep[]>();
let lastUndo = 0;

/**
 * Undoes changes of files when this process ends without having done it (on Windows not after a kill). To be called before
 * the changes; call `release` when they have been undone.
 */
export function guardUndo(steps: readonly UndoStep[]): { release(): void } {
  lastUndo += 1;
  const id = lastUndo;
  if (undos.size === 0) process.on("exit", undoAll);
  undos.set(id, steps);
  const script = process.platform === "win32" ? undefined : undoScript(steps);
  if (script !== undefined) {
    pipe ??= startWatchdog(undefined);
    pipe?.write(`undo ${id} ${script}\n`);
  }
  return {
    release() {
      if (!undos.delete(id)) return;
      if (undos.size === 0) process.off("exit", undoAll);
      pipe?.write(`keep ${id}\n`);
    },
  };
}

function undoAll(): void {
  for (const steps of undos.values()) {
    try {
      undo(steps);
    } catch {
      continue; // an error cannot be reported at exit; the watchdog tries again
    }
  }
}

function startWatchdog(path: string | undefined): Socket | undefined {
  const child = spawn("/bin/sh", ["-c", script, "mcpvals-watchdog", `${runMarkerName}=${runMarker}`], {
    cwd: "/",
    env: { PATH: ["/usr/bin", "/bin", ...(path === undefined ? [] : [path])].join(":") },
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  // Without a shell, there is no watchdog.
  child.on("error", () => undefined);
  child.unref();
  // Undefined when too many files are open.
  const stdin: unknown = child.stdin;
  if (!(stdin instanceof Socket)) return undefined;
  stdin.on("error", () => undefined);
  stdin.unref();
  return stdin;
}

/** The variable with the id of a managed process, by which even a fully detached descendant is found. */
export const processMarkerName = "MCPVALS_PROCESS";

/** The variable with the id of the run of mcpvals. */
export const runMarkerName = "MCPVALS_RUN";

/** The value of {@link runMarkerName} in every process that this one starts. */
export const runMarker: string = randomUUID();

/** A step that undoes a change of files; it may be done twice. All paths are absolute. */
export type UndoStep =
  /** Moves `from` to `to`, if it exists. */
  | { readonly kind: "move-back"; readonly from: string; readonly to: string }
  | { readonly kind: "remove-file"; readonly path: string }
  /** Only when it is empty. */
  | { readonly kind: "remove-folder"; readonly path: string };

/** Undoes changes in order. Throws what the file system throws. */
export function undo(steps: readonly UndoStep[]): void {
  for (const step of steps) {
    try {
      if (step.kind === "move-back") renameSync(step.from, step.to);
      else if (step.kind === "remove-file") rmSync(step.path);
      else rmdirSync(step.path);
    } catch (error) {
      if (!undone[step.kind].includes(codeOf(error) ?? "")) throw error;
    }
  }
}

/** Error codes for nothing to undo. */
const undone: Readonly<Record<UndoStep["kind"], readonly string[]>> = {
  "move-back": ["ENOENT"],
  "remove-file": ["ENOENT", "ENOTDIR"],
  "remove-folder": ["ENOENT", "ENOTEMPTY", "EEXIST", "ENOTDIR"],
};

/** The same for a POSIX shell; undefined when a path has a line break. */
export function undoScript(steps: readonly UndoStep[]): string | undefined {
  const lines = steps.map((step) => {
    if (step.kind === "remove-file") return `rm -f ${quote(step.path)}`;
    if (step.kind === "remove-folder") return `rmdir ${quote(step.path)}`;
    const [from, to] = [quote(step.from), quote(step.to)];
    // mv would move into a folder.
    const clear = `[ ! -L ${to} ] || rm -f ${to}`;
    return `if [ -e ${from} ] || [ -L ${from} ]; then ${clear}; [ -d ${to} ] || mv -f ${from} ${to}; fi`;
  });
  const script = lines.join("; ");
  return /[\n\r\0]/.test(script) ? undefined : script;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
