import { existsSync } from "node:fs";
import { lstat, open, readlink, realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, delimiter, dirname, join, resolve } from "node:path";
import { execPath } from "node:process";
import { McpvalsError } from "../base/error.ts";
import type { SandboxSpec } from "../model/sandbox.ts";
import { findProgram, interpreterOf } from "../process/environment.ts";
import { explainSpawnError, type ProcessSpec } from "../process/spawn.ts";
import type { Confinement } from "./sandbox.ts";

/** Whether a path is a folder or inside it. Both are absolute, without `.` and `..`. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}

/** Makes a listed path absolute, which may be relative to `dir` or begin with `~/`. */
export function listedPath(path: string, dir: string, home: string): string {
  return path === "~" || path.startsWith("~/") ? join(home, path.slice(1)) : resolve(dir, path);
}

/** A file or folder of this machine that is visible inside at an absolute path. */
export interface ListedMount {
  readonly kind: "read" | "write";
  readonly at: string;
  /** Its real path. */
  readonly source: string;
}

/**
 * The mounts of listed paths, each at the path itself and at its real path, since programs use both. A readable path inside a
 * writable one is left out: an earlier program could have replaced it with a link. Throws McpvalsError
 * `server/spawn-failed` for a path that does not exist.
 */
export async function listedMounts(
  read: readonly string[],
  write: readonly string[],
): Promise<{ readonly readable: readonly ListedMount[]; readonly writable: readonly ListedMount[] }> {
  const mountsOf = async (kind: ListedMount["kind"], paths: readonly string[]): Promise<ListedMount[]> => {
    const mounts = new Map<string, ListedMount>();
    for (const path of paths) {
      const source = await realpath(path).catch((cause: unknown) => {
        const message = `the sandbox lists ${path}, which does not exist`;
        const hint = "Check the paths that the sandbox lists.";
        throw new McpvalsError("server/spawn-failed", message, { hint, cause });
      });
      for (const at of [resolve(path), source]) mounts.set(at, { kind, at, source });
    }
    return [...mounts.values()];
  };
  const writable = await mountsOf("write", write);
  const outside = read.filter((path) => !writable.some(({ at }) => isInside(resolve(path), at)));
  return { readable: await mountsOf("read", outside), writable };
}

/**
 * Finds a program, and mounts the listed paths and the installations of the program, its interpreters and Node, as far as they are not
 * in `system`, the folders that are visible anyway. Throws McpvalsError `server/spawn-failed` if one of them does not exist.
 */
export async function mountProgram(
  { process: program, read, write }: Confinement,
  system: readonly string[],
): Promise<{ readonly command: string } & Awaited<ReturnType<typeof listedMounts>>> {
  const visible = [...system, ...read, ...write];
  const isVisible: IsVisible = (path) => visible.some((folder) => isInside(path, folder));
  const programs = await findCommand(program, isVisible);
  const needed = [...new Set([...programs, execPath])].filter((path) => !isVisible(path));
  const folders = await Promise.all(needed.map((path) => installFolders(path, homedir())));
  return { command: programs[0], ...(await listedMounts([...read, ...folders.flat()], write)) };
}

/**
 * The paths that a program needs: its file, or the folder of its installation (`FOLDER/bin/NAME` beside `FOLDER/lib`), such as
 * that of a version manager or virtual environment. Never a home folder, a folder above one, or `~/.local`. Paths are absolute.
 */
export async function installFolders(path: string, home: string): Promise<readonly string[]> {
  return [...new Set([path, await realpath(path)])].map((one) => {
    const folder = dirname(dirname(one));
    const isPrivate = isInside(home, folder) || folder === join(home, ".local");
    const isInstallation = basename(dirname(one)) === "bin" && existsSync(join(folder, "lib"));
    return isInstallation && !isPrivate ? folder : one;
  });
}

/** Whether a path is visible without a mount of its own. */
type IsVisible = (path: string) => boolean;

/**
 * The absolute paths of the program of a spec, and of the interpreters in its first line. A name is searched on the spec's
 * PATH, without scripts that are not visible, such as the shims of version managers, which would not work. Throws McpvalsError
 * `server/spawn-failed` for an unknown program.
 */
async function findCommand(spec: ProcessSpec, isVisible: IsVisible): Promise<[string, ...string[]]> {
  const command = await findUsable(spec.command, spec, isVisible);
  if (command === undefined) throw await explainMissing(spec);
  const interpreter = interpreterOf(await firstLine(command));
  if (interpreter === undefined) return [command];
  const words = interpreter.args.flatMap((text) => text.split(/\s+/));
  // `env` starts another program.
  const name = interpreter.command.endsWith("/env") ? words.find((word) => !/^-|=/.test(word)) : undefined;
  const started = name === undefined ? undefined : await findUsable(name, spec, isVisible);
  return [command, interpreter.command, ...(started === undefined ? [] : [started])];
}

async function findUsable(
  name: string,
  spec: ProcessSpec,
  isVisible: IsVisible,
): Promise<string | undefined> {
  if (name.includes("/")) return findProgram(name, spec);
  for (const folder of (spec.env["PATH"] ?? "").split(delimiter)) {
    const path = await findProgram(name, { env: { PATH: folder }, cwd: spec.cwd });
    if (path !== undefined && (isVisible(path) || !(await firstLine(path)).startsWith("#!"))) return path;
  }
  return undefined;
}

/** The part of a file's first line that the system reads for the interpreter. */
async function firstLine(path: string): Promise<string> {
  try {
    await using file = await open(path, "r");
    const { buffer, bytesRead } = await file.read(Buffer.alloc(256), 0, 256, 0);
    return buffer.toString("utf8", 0, bytesRead).split("\n")[0] ?? "";
  } catch {
    return ""; // executable but not readable, so not a script
  }
}

async function explainMissing(spec: ProcessSpec): Promise<Error> {
  const isPath = spec.command.includes("/");
  const hidden = isPath ? undefined : await findProgram(spec.command, spec);
  if (hidden !== undefined)
    return new McpvalsError("server/spawn-failed", `the program ${hidden} is not visible in the sandbox`, {
      hint: "Let the sandbox read the folder that it is installed in, such as read: [../node_modules].",
    });
  const code = isPath && existsSync(resolve(spec.cwd, spec.command)) ? "EACCES" : "ENOENT";
  return explainSpawnError(Object.assign(new Error(code), { code }), spec);
}

/** A mount of a bubblewrap sandbox at an absolute path. Sizes are in bytes. */
export type Mount = { readonly at: string } & (
  | { readonly kind: "read"; readonly source: string }
  | { readonly kind: "write"; readonly source: string }
  | { readonly kind: "link"; readonly target: string }
  /** A new file system in memory. */
  | { readonly kind: "memory"; readonly size: number }
  /** A new empty folder in the mount around it. */
  | { readonly kind: "folder" }
  | { readonly kind: "proc" }
  | { readonly kind: "devices" }
);

/** Precedence at one path, highest first. */
const ranks = ["proc", "devices", "write", "read", "link", "memory", "folder"];

/**
 * Orders mounts so that outer ones come first, without those that the mount around them contains. At one path,
 * writable takes precedence over readable. Mounts inside a writable one are left out too: an earlier program could have put a link in
 * their place.
 */
export function orderMounts(mounts: readonly Mount[]): readonly Mount[] {
  const rank = ({ kind }: Mount): number => ranks.indexOf(kind);
  const sorted = [...mounts].sort((a, b) => depth(a.at) - depth(b.at) || rank(a) - rank(b));
  const placed: Mount[] = [];
  for (const mount of sorted) {
    const one = fitInto(mountAround(placed, mount.at), mount);
    if (one !== undefined) placed.push(one);
  }
  return placed;
}

function mountAround(mounts: readonly Mount[], path: string): Mount | undefined {
  return mounts
    .filter(({ at }) => isInside(path, at))
    .toSorted((a, b) => depth(a.at) - depth(b.at))
    .at(-1);
}

/** Adapts a mount to the one around it; undefined if it is not needed there. */
function fitInto(around: Mount | undefined, mount: Mount): Mount | undefined {
  const { kind, at } = mount;
  const isSame = at === around?.at;
  switch (around?.kind) {
    case undefined:
      return kind === "folder" ? undefined : mount;
    case "write":
      return undefined;
    case "read":
    case "link":
      // A read-only mount cannot get new folders; the folders at the top of a system exist.
      if (kind === "memory") return !isSame && depth(at) === 1 ? mount : undefined;
      return kind === "read" || kind === "link" || kind === "folder" ? undefined : mount;
    case "proc":
    case "devices":
      return kind === "memory" && !isSame ? mount : undefined;
    case "memory":
    case "folder":
      if (isSame) return kind === "write" || kind === "read" ? mount : undefined;
      // A file system in memory inside another one is only a folder.
      return kind === "memory" ? { kind: "folder", at } : mount;
  }
}

function depth(path: string): number {
  return path.split("/").filter((part) => part !== "").length;
}

/** The file system of a program in a bubblewrap sandbox. */
export interface MountPlan {
  /** Absolute path. */
  readonly command: string;
  /** In the order of mounting. */
  readonly mounts: readonly Mount[];
  /** Its home folder. */
  readonly home: string;
}

/**
 * Plans the mounts of a program: the system, the program with its interpreter, and the listed paths. Throws McpvalsError
 * `server/spawn-failed` when one of them does not exist.
 */
export async function planMounts(confinement: Confinement): Promise<MountPlan> {
  const { process: program, spec } = confinement;
  const system = await systemMounts(spec);
  const { command, readable, writable } = await mountProgram(
    confinement,
    system.map(({ at }) => at),
  );
  const home = program.env["HOME"] ?? "/tmp/home";
  const named = [home, program.env["TMPDIR"] ?? "/"].filter((path) => path.startsWith("/") && path !== "/");
  // Each can have half of the memory limit; its content counts as memory.
  const size = Math.max(4096, Math.floor(spec.memoryBytes / 2 / 4096) * 4096);
  const scratch = [...new Set(["/tmp", "/dev/shm", ...named])];
  const ordered = orderMounts([
    ...system,
    ...readable,
    ...writable,
    ...scratch.map((at): Mount => ({ kind: "memory", at, size })),
    { kind: "proc", at: "/proc" },
    { kind: "devices", at: "/dev" },
  ]);
  // These cover what else is there, the inner ones what the outer ones have there.
  const covering = (spec.mounts ?? [])
    .map(({ isReadOnly, ...each }): Mount => ({ kind: isReadOnly === true ? "read" : "write", ...each }))
    .toSorted((a, b) => depth(a.at) - depth(b.at));
  const mounts = [...ordered, ...covering];
  const kind = mountAround(mounts, program.cwd)?.kind;
  // A new file system has only the folders that lead to a mount.
  const isNew = kind === "memory" || kind === "folder";
  const isThere = !isNew || mounts.some(({ at }) => isInside(at, program.cwd));
  if (kind !== undefined && kind !== "proc" && isThere) return { command, mounts, home };
  throw new McpvalsError("server/spawn-failed", `cwd is not visible in the sandbox: ${program.cwd}`, {
    hint: "Start it in the workspace, or let the sandbox read that folder.",
  });
}

/** Programs and libraries. `/opt` is not a system folder: its programs may be private. */
const programFolders =
  "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /nix/store /gnu/store /run/current-system".split(" ");

/** Files of /etc that programs need: names, time, certificates, settings of the linker and OpenSSL. No keys, no passwords. */
const settings =
  `alternatives ca-certificates ca-certificates.conf crypto-policies gai.conf group host.conf hosts ld-musl-x86_64.path
  ld-musl-aarch64.path ld.so.cache ld.so.conf ld.so.conf.d localtime mime.types nsswitch.conf passwd pki/ca-trust
  pki/tls/cert.pem pki/tls/certs pki/tls/openssl.cnf protocols resolv.conf services ssl/cert.pem ssl/certs ssl/openssl.cnf
  static/ssl/certs timezone`.split(/\s+/);

/** Read-only mounts of the system folders and files of this machine. A link to a folder, such as `/bin`, stays a link. */
async function systemMounts({ network }: Pick<SandboxSpec, "network">): Promise<readonly Mount[]> {
  const mounts: Mount[] = [];
  for (const at of programFolders) {
    const found = await lstat(at).catch(() => undefined);
    if (found?.isSymbolicLink() === true) mounts.push({ kind: "link", at, target: await readlink(at) });
    else if (found !== undefined) mounts.push({ kind: "read", at, source: at });
  }
  // A link in /etc is replaced by its target, which may not be visible.
  const files = settings
    // Without a network a resolver asks this machine in vain, at once.
    .filter((name) => name !== "resolv.conf" || network === "host")
    .map((name) => `/etc/${name}`)
    .filter((at) => existsSync(at));
  return [...mounts, ...files.map((at): Mount => ({ kind: "read", at, source: at }))];
}
