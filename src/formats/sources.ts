import { maxFileBytes } from "../base/limits.ts";
import { type Dirent, existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import { parse, type ParseError } from "jsonc-parser";
import picomatch from "picomatch";
import { codeOf, McpvalsError, messageOf } from "../base/error.ts";
import { isJsonObject, type Json } from "../base/json.ts";
import { isForeign, ownUser, readRegularFile } from "../base/files.ts";
import type { EnvironmentVariables, LoadContext } from "./environment.ts";

/** Endings that a config file may have. */
export const configExtensions = ["ts", "mts", "js", "mjs", "json", "yaml", "yml"] as const;

/** What one source on a command line leads to. */
export type Source =
  /** A file of any kind. */
  | { readonly kind: "file"; readonly path: string; readonly name: string }
  /** Files among which tasks are looked for; the others are left alone. */
  | {
      readonly kind: "search";
      readonly paths: readonly string[];
      readonly name: string;
      /** The source in messages. */
      readonly shown: string;
      /** The folder that was named. */
      readonly dir: string;
    };

/**
 * Finds what sources mean: files, folders, globs; none: the nearest config from `cwd` upwards. A folder with a config is
 * that config, else every file of data below it. Throws `config/not-found`, `config/foreign-owner` and
 * `config/duplicate-name`.
 */
export function findSources(
  sources: readonly string[],
  { cwd, environment }: Pick<LoadContext, "cwd" | "environment">,
): readonly Source[] {
  if (sources.length === 0) return [fileSource(findUpwards(resolve(cwd), environment))];
  return sources.map((source) => {
    const target = resolve(cwd, source);
    const kind = pathKind(target);
    if (kind === "file") return fileSource(target);
    if (kind === "folder") return folderSource(target, cwd);
    if (isGlob(source)) return globSource(source, cwd);
    throw new McpvalsError("config/not-found", `there is no file or folder ${target}`, {
      hint: "Name a config, a task or an Eval, a folder that has some, or a glob.",
    });
  });
}

function fileSource(path: string): Source {
  return { kind: "file", path, name: basename(path, extname(path)) };
}

function folderSource(folder: string, cwd: string): Source {
  const config = configIn(folder);
  if (config !== undefined) return fileSource(config);
  const paths = walkFolder(folder, { depth: Infinity, enters: isOrdinaryFolder })
    .filter((path) => isDataFile(path) && !basename(path).startsWith("."))
    .map((path) => resolve(folder, path));
  if (paths.length === 0) throw notFound([folder]);
  const shown = relative(cwd, folder) || ".";
  return { kind: "search", paths, name: basename(folder) || "tasks", shown, dir: folder };
}

function globSource(pattern: string, cwd: string): Source {
  const matches = expandGlob(pattern, { cwd, dialect: "shell" });
  const paths = matches.filter(isDataFile);
  if (paths.length === 0) {
    const what = matches.length > 0 ? ".yaml, .yml or .json file" : "file";
    throw new McpvalsError("config/not-found", `no ${what} matches ${pattern}`, {
      hint: "Hidden folders and node_modules are not searched. Name a folder to take all tasks below it.",
    });
  }
  const dir = resolve(cwd, picomatch.scan(pattern).base);
  return { kind: "search", paths, name: basename(dir) || "tasks", shown: pattern, dir };
}

/** Finds the nearest config file from a folder upwards. Throws as `findNearest`, and `config/not-found`. */
function findUpwards(start: string, environment: EnvironmentVariables): string {
  const folders: string[] = [];
  const found = findNearest(start, environment, (folder) => {
    folders.push(folder);
    return configIn(folder);
  });
  if (found === undefined) throw notFound(folders);
  return found;
}

/**
 * The first file that `fileIn` gives for a folder or one above it. Throws `config/foreign-owner` for one that another user may have put
 * there, since the user did not name it and it may be a program.
 */
function findNearest(
  start: string,
  { SUDO_UID = "" }: EnvironmentVariables,
  fileIn: (folder: string) => string | undefined,
): string | undefined {
  // With sudo a user works in folders of their own.
  const callers = ownUser() === 0 && /^\d+$/.test(SUDO_UID) ? [Number(SUDO_UID)] : [];
  for (let folder = start; ; folder = dirname(folder)) {
    const found = fileIn(folder);
    if (found !== undefined && isForeign(found, callers)) {
      const message = `${found} was found, but it or its folder belongs to another user`;
      const hint = `A config can run programs as you. If you trust it, name it: mcpvals COMMAND ${found}`;
      throw new McpvalsError("config/foreign-owner", message, { hint });
    }
    if (found !== undefined || dirname(folder) === folder) return found;
  }
}

/** The files of MCP clients that belong to a project, in the order in which they are looked for. */
const clientFiles = [
  ".mcp.json",
  "mcp.json",
  ".vscode/mcp.json",
  ".cursor/mcp.json",
  ".codex/config.toml",
] as const;

/**
 * Finds the nearest file with servers from a folder upwards: in each folder a config, else a client's file. Clients' own folders in the home folder are
 * settings of the user and of no project. Throws as `findNearest`, and `config/not-found`.
 */
export function findServersUpwards({ cwd, environment }: Pick<LoadContext, "cwd" | "environment">): string {
  const start = resolve(cwd);
  const home = environment["HOME"] ?? environment["USERPROFILE"];
  const found = findNearest(start, environment, (folder) => {
    const ofProject = folder === start || folder !== home;
    return serversIn(folder, ofProject ? clientFiles : clientFiles.filter((file) => !file.includes("/")));
  });
  if (found !== undefined) return found;
  // What is wrong with it is reported when it is loaded.
  const broken = findNearest(start, environment, (folder) =>
    [".mcp.json", "mcp.json"].map((file) => join(folder, file)).find((path) => pathKind(path) === "file"),
  );
  if (broken !== undefined) return broken;
  throw new McpvalsError(
    "config/not-found",
    `no server is named, and no file with servers is in ${start} or a folder above it`,
    {
      detail: `looked for mcp-eval.config.{${configExtensions.join(",")}}, ${clientFiles.join(", ")}`,
      hint: targetHint,
    },
  );
}

const targetHint =
  "Name a command after --, a URL with http:// or https://, or a file with servers: npx mcpvals check -- node server.js";

function serversIn(folder: string, files: readonly string[]): string | undefined {
  return configIn(folder) ?? files.map((file) => join(folder, file)).find(hasServers);
}

/** The path that a target names, of a folder the file with servers in it. Throws `config/not-found`. */
export function requireTarget(source: string, cwd: string): string {
  const path = resolve(cwd, source);
  const kind = pathKind(path);
  if (kind === "folder") return serversIn(path, clientFiles) ?? path;
  if (kind === "file" || isGlob(source)) return path;
  throw new McpvalsError("config/not-found", `there is no file or folder ${path}`, { hint: targetHint });
}

/** Whether a client's file seems to have servers, or is broken; clients have it without some too. */
function hasServers(file: string): boolean {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(readRegularFile(file, maxFileBytes));
    if (/servers/i.test(text)) return true;
    if (!file.endsWith(".json")) return false;
    const errors: ParseError[] = [];
    const value = parse(text, errors, { allowTrailingComma: true }) as Json;
    return errors.length > 0 || !isJsonObject(value);
  } catch {
    // A file that cannot be read is reported when it is.
    return pathKind(file) === "file";
  }
}

function notFound(folders: readonly string[]): McpvalsError {
  const where = folders.length === 1 ? `in ${folders[0]}` : `in ${folders[0]} or a folder above it`;
  const pattern = `mcp-eval.config.{${configExtensions.join(",")}}`;
  return new McpvalsError("config/not-found", `there is no config file ${where}`, {
    detail: folders.map((folder) => `looked for ${join(folder, pattern)}`).join("\n"),
    hint: "Write a first config with: npx mcpvals init. Or run inside a folder with an mcp-eval.config file, or name one, or name tasks.",
  });
}

/** The config file in a folder, if there is one. Throws `config/duplicate-name` for a folder with two of them. */
function configIn(folder: string): string | undefined {
  const found = configExtensions
    .map((extension) => join(folder, `mcp-eval.config.${extension}`))
    .filter((file) => pathKind(file) === "file");
  if (found.length <= 1) return found[0];
  const files = found.map((file) => basename(file)).join(" and ");
  throw new McpvalsError("config/duplicate-name", `${folder} has more than one config file: ${files}`, {
    hint: "Remove all but one, or name the one that you mean.",
  });
}

/** The nearest folder from a folder upwards that has a `.git`, else the folder itself. */
export function repositoryOf(folder: string): string {
  for (let found = folder; ; found = dirname(found)) {
    if (existsSync(join(found, ".git"))) return found;
    if (dirname(found) === found) return folder;
  }
}

/** What holds nothing that could be read: a folder that may not be entered, a path through a file, an endless link. */
const absent: readonly unknown[] = ["EACCES", "EPERM", "ENOTDIR", "ELOOP", "ENAMETOOLONG"];

/** What is at a path; links are followed. Throws `config/unreadable` for what is not a path at all. */
export function pathKind(path: string): "file" | "folder" | undefined {
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined) return undefined;
    return stats.isDirectory() ? "folder" : "file";
  } catch (cause) {
    if (absent.includes(codeOf(cause))) return undefined;
    throw unreadable(JSON.stringify(path), cause);
  }
}

/** Most entries that are looked at before anything runs; what is wrong with others is found when they are copied. */
const maxEntries = 10_000;

/** Something that is there to be copied. */
interface Entry {
  readonly path: string;
  /** `special`: a pipe, a socket or a device. */
  readonly kind: "file" | "folder" | "link" | "special";
}

/** What is at a path and below it; links below it are not followed. Throws `config/unreadable`. */
export function entriesBelow(root: string): readonly Entry[] {
  const found: Entry[] = [];
  const add = (path: string, what: Pick<Dirent, "isDirectory" | "isFile" | "isSymbolicLink">): void => {
    const kind = what.isDirectory() ? "folder" : what.isFile() ? "file" : "special";
    found.push({ path, kind: what.isSymbolicLink() ? "link" : kind });
  };
  const stats = statSync(root, { throwIfNoEntry: false });
  if (stats !== undefined) add(root, stats);
  // What is found in a folder is looked at in turn.
  for (const { path, kind } of found)
    if (kind === "folder" && found.length < maxEntries)
      for (const entry of entriesOf(path)) add(join(path, entry.name), entry);
  return found;
}

function unreadable(what: string, cause: unknown): McpvalsError {
  const reason = messageOf(cause);
  return new McpvalsError("config/unreadable", `${what} cannot be read: ${reason}`, { cause });
}

/** Whether a file's name has an ending of files of data. */
function isDataFile(path: string): boolean {
  return /\.(?:ya?ml|json)$/i.test(path);
}

/** The files of data at a path, or that a glob matches, from a folder. */
export function pathsOfPattern(pattern: string, dir: string): readonly string[] {
  const path = resolve(dir, pattern);
  if (pathKind(path) === "file") return [path];
  return isGlob(pattern) ? expandGlob(pattern, { cwd: dir, dialect: "shell" }).filter(isDataFile) : [];
}

export function isGlob(text: string): boolean {
  return picomatch.scan(text).isGlob;
}

interface GlobOptions {
  /** Absolute path of the folder that a relative pattern starts from. */
  readonly cwd: string;
  /**
   * `shell`: braces are alternatives, and a `*` does not begin a hidden name. `go`: braces are letters, and a `*` begins
   * any name. Both: a `**` reaches across any number of folders, but into none that is hidden or `node_modules`.
   */
  readonly dialect: "shell" | "go";
}

/** A name that begins with a dot. */
const hidden = /(?:^|\/)\./;

/** The absolute paths of the files that a glob matches, sorted; none is not an error. Links in them are not resolved. */
export function expandGlob(pattern: string, { cwd, dialect }: GlobOptions): string[] {
  const { base, glob } = picomatch.scan(pattern);
  const root = resolve(cwd, base);
  if (glob === "") return pathKind(root) === "file" ? [root] : [];
  if (pathKind(root) !== "folder") return [];
  const go = dialect === "go";
  const matches = picomatch(glob, {
    dot: go,
    nobrace: go,
    noextglob: go,
    posix: !go,
    nonegate: true,
    windows: false,
    strictSlashes: true,
  });
  const mayBeHidden = go || hidden.test(glob);
  const isDeep = glob.includes("**") || (!go && /[{(]/.test(glob));
  const names = glob.split("/");
  // A folder that the pattern spells out is gone into, whatever it is called; so is any that a plain `*` may mean.
  const enters = (name: string): boolean => names.includes(name) || (go && !isDeep) || isOrdinaryFolder(name);
  return walkFolder(root, { depth: isDeep ? Infinity : names.length - 1, enters })
    .filter((path) => matches(path) && (mayBeHidden || !hidden.test(path)))
    .map((path) => join(root, path));
}

/** Whether a folder may hold tasks of the reader's own. */
function isOrdinaryFolder(name: string): boolean {
  return name !== "node_modules" && !name.startsWith(".");
}

interface WalkOptions {
  /** Levels of folders to go down: 0 looks only into the folder itself. */
  readonly depth: number;
  /** Whether a folder of this name, met on the way, is gone into. */
  readonly enters: (name: string) => boolean;
}

/** Most levels of folders that are searched; deeper ones would soon be too long for a path. */
const deepest = 100;

/**
 * The paths, relative to a folder and with `/` in them, of everything below it that is not a folder, sorted. Links are
 * followed, each folder once. Throws `config/unreadable` for a folder that cannot be read, or is too deep to be searched.
 */
function walkFolder(root: string, { depth, enters }: WalkOptions): string[] {
  const seen = new Set<string>();
  const found: string[] = [];
  const walk = (folder: string, prefix: string, level: number): void => {
    const real = realPathOf(folder);
    if (real === undefined || seen.has(real)) return;
    seen.add(real);
    if (level > deepest) {
      const reason = `cannot be searched: it has folders more than ${deepest} levels deep`;
      const hint = "Name the folder that has the tasks, or the tasks.";
      throw new McpvalsError("config/unreadable", `the folder ${root} ${reason}`, { hint });
    }
    for (const entry of entriesOf(folder)) {
      const path = join(folder, entry.name);
      if (!isFolder(entry, path)) found.push(prefix + entry.name);
      else if (level < depth && enters(entry.name)) walk(path, `${prefix}${entry.name}/`, level + 1);
    }
  };
  walk(root, "", 0);
  // By code units: the same order on every machine.
  return found.toSorted();
}

/** Undefined for a folder that is gone by now. */
function realPathOf(folder: string): string | undefined {
  try {
    return realpathSync(folder);
  } catch (cause) {
    if (pathKind(folder) === undefined) return undefined;
    throw unreadable(`the folder ${folder}`, cause);
  }
}

function entriesOf(folder: string): Dirent[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (cause) {
    throw unreadable(`the folder ${folder}`, cause);
  }
}

function isFolder(entry: Dirent, path: string): boolean {
  if (!entry.isSymbolicLink()) return entry.isDirectory();
  try {
    return statSync(path).isDirectory();
  } catch (cause) {
    // A broken link is reported when the file is read.
    if (codeOf(cause) === undefined) throw cause;
    return false;
  }
}
