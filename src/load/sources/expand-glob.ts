import { type Dirent, readdirSync, realpathSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import picomatch from "picomatch";
import { McpvalsError } from "../../core/errors/error.ts";

/** What holds nothing that could be read: a folder that may not be entered, a path through a file, an endless link. */
const absent: readonly unknown[] = ["EACCES", "EPERM", "ENOTDIR", "ELOOP", "ENAMETOOLONG"];

/** What is at a path; links are followed. Throws `config/unreadable` for what is no path at all. */
export function pathKind(path: string): "file" | "folder" | undefined {
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined) return undefined;
    return stats.isDirectory() ? "folder" : "file";
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && absent.includes(cause.code)) return undefined;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("config/unreadable", `${JSON.stringify(path)} cannot be read: ${reason}`, {
      cause,
    });
  }
}

export interface GlobOptions {
  /** Absolute path of the folder that a relative pattern starts from. */
  readonly cwd: string;
  /**
   * `shell`: braces are alternatives, and a `*` does not begin a hidden name. `go`: braces are letters, and a `*` begins
   * any name. Both: a `**` reaches across any number of folders, but into none that is hidden or `node_modules`.
   */
  readonly dialect: "shell" | "go";
}

/** Whether a file's name has an ending of files of data. */
export function isDataFile(path: string): boolean {
  return /\.(?:ya?ml|json)$/i.test(path);
}

/** Whether a text has anything that a glob gives a meaning. */
export function isGlob(text: string): boolean {
  return picomatch.scan(text).isGlob;
}

/** A name that begins with a dot. */
const hidden = /(?:^|\/)\./;

/** The absolute paths of the files that a glob matches, sorted; none is no error. Links in them are not resolved. */
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
  const depth = isDeep ? Infinity : glob.split("/").length - 1;
  const named = new Set(glob.split("/"));
  // A folder that the pattern spells out is gone into, whatever it is called; so is any that a plain `*` may mean.
  const enters = (name: string): boolean => named.has(name) || (go && !isDeep) || isOrdinaryFolder(name);
  return walkFolder(root, { depth, enters })
    .filter((path) => matches(path) && (mayBeHidden || !hidden.test(path)))
    .map((path) => join(root, path));
}

export interface WalkOptions {
  /** Levels of folders to go down: 0 looks only into the folder itself. */
  readonly depth: number;
  /** Whether a folder of this name, met on the way, is gone into. */
  readonly enters: (name: string) => boolean;
}

/** Folders that hold no tasks of the reader's own. */
export function isOrdinaryFolder(name: string): boolean {
  return name !== "node_modules" && !name.startsWith(".");
}

/** Most levels of folders that are searched; deeper ones would soon be too long for a path. */
const deepest = 100;

/**
 * The paths, relative to a folder and with `/` in them, of everything below it that is no folder, sorted. Links are
 * followed, each folder once. Throws `config/unreadable` for a folder that cannot be read, or is too deep to be searched.
 */
export function walkFolder(root: string, options: WalkOptions): string[] {
  const seen = new Set<string>();
  const found: string[] = [];
  const walk = (folder: string, prefix: string, level: number): void => {
    const real = realpathSync(folder);
    if (seen.has(real)) return;
    seen.add(real);
    if (level > deepest) throw tooDeep(root);
    for (const entry of entriesOf(folder)) {
      const path = join(folder, entry.name);
      if (!isFolder(entry, path)) found.push(prefix + entry.name);
      else if (level < options.depth && options.enters(entry.name))
        walk(path, `${prefix}${entry.name}/`, level + 1);
    }
  };
  walk(root, "", 0);
  return found.toSorted(byText);
}

function tooDeep(root: string): McpvalsError {
  return new McpvalsError(
    "config/unreadable",
    `the folder ${root} cannot be searched: it has folders more than ${deepest} levels deep`,
    { hint: "Name the folder that has the tasks, or the tasks." },
  );
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).toSorted((a, b) => byText(a.name, b.name));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("config/unreadable", `the folder ${folder} cannot be read: ${reason}`, { cause });
  }
}

function isFolder(entry: Dirent, path: string): boolean {
  if (!entry.isSymbolicLink()) return entry.isDirectory();
  try {
    return statSync(path).isDirectory();
  } catch (cause) {
    // A broken link is reported when the file is read.
    if (cause instanceof Error && "code" in cause) return false;
    throw cause;
  }
}

/** The same order on every machine. */
function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
