import { isUtf8 } from "node:buffer";
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { isInside } from "../../base/files.ts";
import { maxCheckedBytes } from "../../base/limits.ts";
import type { FileChange } from "../../model/recording.ts";

/** What of a file tells that it was changed. */
interface Seen {
  readonly isFolder: boolean;
  readonly stamp: string;
}

/** Files and folders that are looked at. */
const maxFiles = 10_000;

/** Finds what is changed in the workspace of a trial: files and folders, no links. */
export class WorkspaceChanges {
  readonly #folder: string;
  #seen: ReadonlyMap<string, Seen> = new Map();
  #bytes = 0;
  /** Why not everything is known. */
  problem: string | undefined;

  /** Begins with what is there. */
  constructor(folder: string) {
    this.#folder = folder;
    this.forget();
  }

  /** Leaves out what was changed until now. */
  forget(): void {
    this.#seen = this.#look();
  }

  /** What was changed since, with its content. */
  take(): readonly FileChange[] {
    const before = this.#seen;
    this.forget();
    const changed = [...this.#seen].filter(([path, { stamp }]) => before.get(path)?.stamp !== stamp);
    const gone = [...before.keys()].filter((path) => !this.#seen.has(path));
    return [
      ...gone.map((path) => ({ path, gone: true as const })),
      ...changed.flatMap(([path, { isFolder }]) =>
        isFolder ? { path, folder: true as const } : this.#read(path),
      ),
    ];
  }

  #read(path: string): FileChange | [] {
    try {
      const file = join(this.#folder, path);
      const mode = lstatSync(file).mode & 0o777;
      const bytes = readFileSync(file);
      this.#bytes += bytes.length;
      if (this.#bytes > maxCheckedBytes) {
        this.problem = `its servers wrote more than ${maxCheckedBytes / 1_000_000} MB of files`;
        return [];
      }
      return isUtf8(bytes)
        ? { path, mode, text: bytes.toString("utf8") }
        : { path, mode, base64: bytes.toString("base64") };
    } catch {
      // It is gone again.
      return [];
    }
  }

  #look(): ReadonlyMap<string, Seen> {
    const found = new Map<string, Seen>();
    const folders = [""];
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      for (const name of namesIn(join(this.#folder, folder))) {
        const path = folder === "" ? name : `${folder}/${name}`;
        const stats = lstatSync(join(this.#folder, path), { throwIfNoEntry: false });
        if (stats === undefined || !(stats.isFile() || stats.isDirectory())) continue;
        if (found.size >= maxFiles) {
          this.problem = `its workspace has more than ${maxFiles} files`;
          return found;
        }
        const isFolder = stats.isDirectory();
        if (isFolder) folders.push(path);
        found.set(path, {
          isFolder,
          stamp: isFolder ? "folder" : `${stats.ino} ${stats.size} ${stats.mtimeMs} ${stats.ctimeMs}`,
        });
      }
    }
    return found;
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Changes files of a workspace as a server did. Throws what the file system throws, and for a path that leads out of it. */
export function applyChanges(workspace: string, changes: readonly FileChange[]): void {
  for (const change of changes) {
    const path = join(workspace, change.path);
    if (path === workspace || !isInside(workspace, path))
      throw new Error(`the recording changes ${change.path}, which is not in the workspace`);
    if ("gone" in change) rmSync(path, { recursive: true, force: true });
    else if ("folder" in change) mkdirSync(path, { recursive: true });
    else {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, "text" in change ? change.text : Buffer.from(change.base64, "base64"));
      chmodSync(path, change.mode);
    }
  }
}
