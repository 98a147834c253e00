import { join, resolve } from "node:path";
import picomatch from "picomatch";
import { pathKind } from "../path-kind.ts";
import { isOrdinaryFolder, walkFolder } from "./walk-folder.ts";

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
