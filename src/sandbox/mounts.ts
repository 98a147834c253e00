import { access, lstat, open, readlink, realpath, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, delimiter, dirname, join, resolve } from "node:path";
import { execPath } from "node:process";
import { McpvalsError } from "../core/errors/error.ts";
import { findProgram, interpreterOf } from "../process/environment.ts";
import { explainSpawnError, type ProcessSpec } from "../process/spawn.ts";
import type { Confinement } from "./sandbox.ts";

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

/** Whether a path is a folder or in it. Both are absolute and without `.` and `..`. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}

/** A file or folder of this machine that is visible inside at an absolute path. */
export interface ListedMount {
  readonly kind: "read" | "write";
  readonly at: string;
  /** Its real path. */
  readonly source: string;
}

/**
 * The mounts of listed paths, at the path itself and at its real path, since programs use both. A readable path inside of a
 * writable one is left out: an earlier program could have replaced it with a link to anything. Throws McpvalsError
 * `server/spawn-failed` for a path that does not exist.
 */
export async function listedMounts(
  read: readonly string[],
  write: readonly string[],
): Promise<{ readonly readable: readonly ListedMount[]; readonly writable: readonly ListedMount[] }> {
  const writable = await each("write", write);
  const outside = read.filter((path) => !writable.some(({ at }) => isInside(resolve(path), at)));
  return { readable: await each("read", outside), writable };
}

async function each(kind: ListedMount["kind"], paths: readonly string[]): Promise<readonly ListedMount[]> {
  const mounts = (await Promise.all(paths.map((path) => listed(kind, path)))).flat();
  return [...new Map(mounts.map((mount) => [mount.at, mount])).values()];
}

async function listed(kind: ListedMount["kind"], path: string): Promise<readonly ListedMount[]> {
  try {
    const source = await realpath(path);
    return [...new Set([resolve(path), source])].map((at) => ({ kind, at, source }));
  } catch (cause) {
    throw new McpvalsError("server/spawn-failed", `the sandbox cannot show ${path}: it does not exist`, {
      hint: "Check the paths that the sandbox lists.",
      cause,
    });
  }
}

/** The absolute path of a listed one, which may be relative to `dir` or begin with `~/`. */
export function listedPath(path: string, dir: string, home: string): string {
  return path === "~" || path.startsWith("~/") ? join(home, path.slice(1)) : resolve(dir, path);
}

/**
 * The paths that a program needs: its file, or the folder of its installation (`FOLDER/bin/NAME` beside `FOLDER/lib`), as with
 * version managers and virtual environments. Never a home folder, a folder above one, or `~/.local`. Paths are absolute.
 */
export async function installFolders(path: string, home: string): Promise<readonly string[]> {
  const real = await realpath(path);
  const found: string[] = [];
  for (const one of new Set([path, real])) found.push((await installFolder(one, home)) ?? one);
  return found;
}

async function installFolder(path: string, home: string): Promise<string | undefined> {
  const folder = dirname(dirname(path));
  if (basename(dirname(path)) !== "bin" || isPrivate(folder, home)) return undefined;
  try {
    await access(join(folder, "lib"));
    return folder;
  } catch {
    return undefined; // not an installation of its own
  }
}

function isPrivate(folder: string, home: string): boolean {
  return isInside(home, folder) || folder === join(home, ".local");
}

/** A program with what is needed to run it. */
export interface FoundCommand {
  /** Absolute path of the program itself. */
  readonly command: string;
  /** Absolute paths of the program and of its interpreters. */
  readonly programs: readonly string[];
}

/** Whether a path is visible inside anyway. */
type IsVisible = (path: string) => boolean;

/**
 * Finds the program of a spec, and the interpreter of its first line. A name is searched on the spec's PATH; scripts there
 * that are not visible inside, such as the shims of version managers, are skipped, since they would not work inside. Throws
 * McpvalsError `server/spawn-failed` when there is no such program.
 */
export async function findCommand(spec: ProcessSpec, isVisible: IsVisible): Promise<FoundCommand> {
  const command = await findUsable(spec.command, spec, isVisible);
  if (command === undefined) throw await explainMissing(spec);
  const interpreter = await findInterpreter(command, spec, isVisible);
  return { command, programs: interpreter === undefined ? [command] : [command, ...interpreter] };
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

/** The interpreter of a script, with the program that `env` starts; undefined for other files. */
async function findInterpreter(
  path: string,
  spec: ProcessSpec,
  isVisible: IsVisible,
): Promise<readonly string[] | undefined> {
  const interpreter = interpreterOf(await firstLine(path));
  if (interpreter === undefined) return undefined;
  if (!interpreter.command.endsWith("/env")) return [interpreter.command];
  const name = interpreter.args.flatMap((text) => text.split(/\s+/)).find((word) => !/^-|=/.test(word));
  const found = name === undefined ? undefined : await findUsable(name, spec, isVisible);
  return found === undefined ? [interpreter.command] : [interpreter.command, found];
}

/** The first line of a file, as far as the system reads it to find the interpreter. */
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
  const hidden = spec.command.includes("/") ? undefined : await findProgram(spec.command, spec);
  if (hidden !== undefined)
    return new McpvalsError("server/spawn-failed", `the sandbox does not show the program ${hidden}`, {
      hint: "Let the sandbox read the folder that it is installed in, such as read: [../node_modules].",
    });
  const isThere = await access(resolve(spec.cwd, spec.command)).then(
    () => true,
    () => false,
  );
  const code = spec.command.includes("/") && isThere ? "EACCES" : "ENOENT";
  return explainSpawnError(Object.assign(new Error(code), { code }), spec);
}

/**
 * Orders mounts so that outer ones come first, and leaves out those that the mount around them has already. At one path,
 * writable wins over readable. Mounts inside of a writable one are left out too: an earlier program could have put a link to
 * anything in their place.
 */
export function orderMounts(mounts: readonly Mount[]): readonly Mount[] {
  const sorted = [...mounts].sort((a, b) => depth(a.at) - depth(b.at) || rank(a) - rank(b));
  const placed: Mount[] = [];
  for (const mount of sorted) {
    const one = fitInto(placed, mount);
    if (one !== undefined) placed.push(one);
  }
  return placed;
}

/** The innermost mount around a path. */
function mountAround(mounts: readonly Mount[], path: string): Mount | undefined {
  return mounts
    .filter(({ at }) => isInside(path, at))
    .reduce<Mount | undefined>(
      (inner, one) => (inner && depth(inner.at) > depth(one.at) ? inner : one),
      undefined,
    );
}

function fitInto(placed: readonly Mount[], mount: Mount): Mount | undefined {
  const around = mountAround(placed, mount.at);
  switch (around?.kind) {
    case undefined:
      return mount.kind === "folder" ? undefined : mount;
    case "write":
      return undefined;
    case "read":
    case "link":
      return isOver(around, mount) ? mount : undefined;
    case "proc":
    case "devices":
      return mount.kind === "memory" && mount.at !== around.at ? mount : undefined;
    case "memory":
    case "folder":
      return fitIntoMemory(around, mount);
  }
}

/** A read-only mount cannot get new folders; the folders at the top of a system exist. */
function isOver(around: Mount, mount: Mount): boolean {
  if (mount.kind === "memory") return mount.at !== around.at && depth(mount.at) === 1;
  return mount.kind !== "read" && mount.kind !== "link" && mount.kind !== "folder";
}

/** A file system in memory inside of another one is only a folder. */
function fitIntoMemory(around: Mount, mount: Mount): Mount | undefined {
  if (mount.at === around.at) return mount.kind === "write" || mount.kind === "read" ? mount : undefined;
  return mount.kind === "memory" ? { kind: "folder", at: mount.at } : mount;
}

function depth(path: string): number {
  return path.split("/").filter((part) => part !== "").length;
}

const ranks = ["proc", "devices", "write", "read", "link", "memory", "folder"];

function rank({ kind }: Mount): number {
  return ranks.indexOf(kind);
}

/** What a program sees in a bubblewrap sandbox. */
export interface MountPlan {
  /** Absolute path. */
  readonly command: string;
  /** In the order of mounting. */
  readonly mounts: readonly Mount[];
  /** Its home folder. */
  readonly home: string;
}

/** HOME of a program whose environment has none. */
const ownHome = "/tmp/home";

/**
 * Plans the mounts of a program: the system, the program with its interpreter, and the listed paths. Throws McpvalsError
 * `server/spawn-failed` when one of them does not exist.
 */
export async function planMounts({ process: program, read, write, spec }: Confinement): Promise<MountPlan> {
  const system = await systemMounts();
  const visible = [...system.map(({ at }) => at), ...read, ...write];
  const isVisible = (path: string): boolean => visible.some((folder) => isInside(path, folder));
  const { command, programs } = await findCommand(program, isVisible);
  const needed = [...new Set([...programs, execPath])].filter((path) => !isVisible(path));
  const folders = await Promise.all(needed.map((path) => installFolders(path, homedir())));
  const home = program.env["HOME"] ?? ownHome;
  const { readable, writable } = await listedMounts([...read, ...folders.flat()], write);
  const mounts = orderMounts([
    ...system,
    ...readable,
    ...writable,
    ...scratch([home, program.env["TMPDIR"]], spec.memoryBytes),
    { kind: "proc", at: "/proc" },
    { kind: "devices", at: "/dev" },
  ]);
  if (!isThere(mounts, program.cwd)) throw notVisible(program.cwd);
  return { command, mounts, home };
}

/** A new file system has only the folders that lead to a mount. */
function isThere(mounts: readonly Mount[], path: string): boolean {
  const kind = mountAround(mounts, path)?.kind;
  if (kind === undefined || kind === "proc") return false;
  const isNew = kind === "memory" || kind === "folder";
  return !isNew || mounts.some(({ at }) => isInside(at, path));
}

/** Folders in memory. Each holds at most half of the memory limit, and its content counts as memory. */
function scratch(named: readonly (string | undefined)[], memoryBytes: number): readonly Mount[] {
  const folders = new Set(["/tmp", "/dev/shm", ...named.filter((path) => path?.startsWith("/") === true)]);
  folders.delete("/");
  const size = Math.max(4096, Math.floor(memoryBytes / 2 / 4096) * 4096);
  return [...folders].flatMap((at) => (at === undefined ? [] : [{ kind: "memory", at, size }]));
}

function notVisible(cwd: string): McpvalsError {
  return new McpvalsError("server/spawn-failed", `cwd is not visible in the sandbox: ${cwd}`, {
    hint: "Start it in the workspace, or let the sandbox read that folder.",
  });
}

/** Programs and libraries. `/opt` is not a system folder: its programs may be private. */
const programFolders = [
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/nix/store",
  "/gnu/store",
  "/run/current-system",
];

/** Files of /etc that programs need: names, time, certificates, settings of the linker and OpenSSL. No keys, no passwords. */
const settings = [
  "alternatives",
  "ca-certificates",
  "ca-certificates.conf",
  "crypto-policies",
  "gai.conf",
  "group",
  "host.conf",
  "hosts",
  "ld-musl-x86_64.path",
  "ld-musl-aarch64.path",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "localtime",
  "mime.types",
  "nsswitch.conf",
  "passwd",
  "pki/ca-trust",
  "pki/tls/cert.pem",
  "pki/tls/certs",
  "pki/tls/openssl.cnf",
  "protocols",
  "resolv.conf",
  "services",
  "ssl/cert.pem",
  "ssl/certs",
  "ssl/openssl.cnf",
  "static/ssl/certs",
  "timezone",
].map((name) => `/etc/${name}`);

/** Read-only mounts of the system, as far as this machine has them. */
async function systemMounts(): Promise<readonly Mount[]> {
  const [folders, files] = await Promise.all([
    Promise.all(programFolders.map(asItIs)),
    Promise.all(settings.map(whatItIs)),
  ]);
  return [...folders, ...files].filter((mount) => mount !== undefined);
}

/** A link, as `/bin` often is, stays the same link inside. */
async function asItIs(at: string): Promise<Mount | undefined> {
  try {
    const isLink = (await lstat(at)).isSymbolicLink();
    return isLink ? { kind: "link", at, target: await readlink(at) } : read(at);
  } catch {
    return undefined; // not on this machine
  }
}

/** The target of a link takes its place, since it may not be visible inside. */
async function whatItIs(at: string): Promise<Mount | undefined> {
  try {
    await stat(at);
    return read(at);
  } catch {
    return undefined; // not on this machine, or a link to nothing
  }
}

function read(at: string): Mount {
  return { kind: "read", at, source: at };
}
