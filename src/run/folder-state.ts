import { createHash } from "node:crypto";
import { type BigIntStats, createReadStream } from "node:fs";
import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { ignoredByGit } from "../process/ignored-by-git.ts";
import { orAbsent } from "../steps/files/or-absent.ts";

/** What something is, in words that can be compared and shown. */
export interface Found {
  readonly what: string;
  /** Of a file or folder: changes with every write, even of what was there before. */
  readonly stamp?: string;
}

/** By a name to show. */
export type State = ReadonlyMap<string, Found>;

/** What is known of files that did not change since, by absolute path; keeps large files from being read for every trial. */
export type KnownFiles = Map<string, Found>;

interface Look {
  readonly state: Map<string, Found>;
  readonly known: KnownFiles;
  /** Absolute paths that are passed over. */
  readonly ignored: ReadonlySet<string>;
  /** Names that are passed over everywhere. */
  readonly skipped?: readonly string[];
}

/**
 * Everything below a folder, named from `name` on; nothing for a folder that is not there. Rejects with McpvalsError
 * `task/workspace` for what cannot be read.
 */
export function readWorkspace(path: string, name: string, known: KnownFiles): Promise<State> {
  return readAll(path, name, { known, ignored: new Set() });
}

/** As {@link readWorkspace}, without `except`, what git ignores, and the folders `.git` and `node_modules`. */
export async function readSourceFolder(
  path: string,
  name: string,
  { known, except = [] }: { readonly known: KnownFiles; readonly except?: readonly string[] },
): Promise<State> {
  const ignored = new Set([...except, ...(await ignoredByGit(path))]);
  return readAll(path, name, { known, ignored, skipped: notSources });
}

const notSources: readonly string[] = [".git", "node_modules"];

async function readAll(path: string, name: string, look: Omit<Look, "state">): Promise<State> {
  const state = new Map<string, Found>();
  try {
    await readFolder(path, name, { ...look, state });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("task/workspace", `not all of ${name} can be looked at: ${reason}`, { cause });
  }
  return state;
}

/** What is gone before it was looked at is not there. */
async function readFolder(folder: string, name: string, look: Look): Promise<void> {
  for (const entry of (await orAbsent(readdir(folder))) ?? []) {
    const path = join(folder, entry);
    if (look.ignored.has(path) || look.skipped?.includes(entry)) continue;
    const shown = `${name}/${entry}`;
    const stats = await orAbsent(lstat(path, { bigint: true }));
    const found = stats && (await orAbsent(describe(path, stats, look.known)));
    if (found === undefined) continue;
    look.state.set(shown, found);
    if (stats?.isDirectory()) await readFolder(path, shown, look);
  }
}

async function describe(path: string, stats: BigIntStats, known: KnownFiles): Promise<Found> {
  const stamp = `${stats.ino} ${stats.ctimeNs} ${stats.size}`;
  if (stats.isDirectory()) return { what: "a folder", stamp };
  if (stats.isSymbolicLink()) return { what: `a link to ${await readlink(path)}`, stamp };
  if (!stats.isFile()) return { what: "neither file nor folder" };
  const earlier = known.get(path);
  if (earlier?.stamp === stamp) return earlier;
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  const mode = (Number(stats.mode) & 0o777).toString(8);
  const found = { what: `a file, mode ${mode}, sha256 ${hash.digest("hex").slice(0, 12)}`, stamp };
  // A file system's clock may tick too slowly to tell a write right after this one from it.
  if (BigInt(Date.now()) * 1_000_000n - stats.ctimeNs > 1_000_000_000n) known.set(path, found);
  return found;
}
