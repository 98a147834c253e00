import { type Dirent, readdirSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";

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
    // A link that leads nowhere is told when somebody reads it.
    if (cause instanceof Error && "code" in cause) return false;
    throw cause;
  }
}

/** The same order on every machine. */
function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
