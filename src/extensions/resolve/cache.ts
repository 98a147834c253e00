import { randomBytes } from "node:crypto";
import { mkdir, readdir, rename, rm, rmdir, stat, utimes, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { hasCode } from "./file-errors.ts";
import { type CacheRecord, executablesOf, readRecord, recordedFiles } from "./cache-record.ts";
import type { CachedVersion } from "./extension-resolver.ts";
import { hashTree } from "./tree-hash.ts";

/** A version in the cache. */
export interface CacheEntry {
  /** Absolute; has `files` and `extension.json`. */
  readonly folder: string;
  readonly record: CacheRecord;
}

/** What is put into the cache, besides its files. */
export type NewEntry = Omit<CacheRecord, "tree" | "files">;

const recordName = "extension.json";
const draftPrefix = ".new-";
/** After this long whoever was writing it must be gone. */
const draftLifeMs = 24 * 60 * 60 * 1000;

/** The folder that has an entry's files. */
export function filesOf({ folder }: CacheEntry): string {
  return join(folder, "files");
}

/** Versions of packages side by side: CACHE/PACKAGE/VERSION/PLATFORM-HASH. */
export class ExtensionCache {
  readonly #root: string;
  readonly #signal: AbortSignal;

  /** `root` is absolute; it is made when something is put into it. */
  constructor(root: string, signal: AbortSignal) {
    this.#root = root;
    this.#signal = signal;
  }

  /** All entries of a package, the last used first. */
  async entries(packageName: string): Promise<readonly CacheEntry[]> {
    const folders = await entryFolders(join(this.#root, ...packageName.split(/[/:]/).map(safeName)));
    const found = await Promise.all(
      folders.map(async (folder) => ({
        folder,
        usedAt: await usedAt(folder),
        record: await recordIn(folder),
      })),
    );
    return found
      .filter(({ record }) => record.package === packageName)
      .sort((a, b) => b.usedAt.getTime() - a.usedAt.getTime());
  }

  /** The entry of a version that was made of a file with that hash. */
  async find(packageName: string, version: string, hash: string): Promise<CacheEntry | undefined> {
    const entries = await this.entries(packageName);
    return entries.find(({ record }) => record.version === version && record.hash === hash);
  }

  /**
   * Makes an entry of what `fill` puts into the folder that it is given; its result is what the entry is, and the paths
   * of the executable files. Others may do the same at the same time: whoever is first has made it. When anything fails,
   * nothing is left.
   */
  async add(
    packageName: string,
    version: string,
    fill: (folder: string) => Promise<{ entry: NewEntry; executables: ReadonlySet<string> }>,
  ): Promise<CacheEntry> {
    const home = join(this.#root, ...[...packageName.split(/[/:]/), version].map(safeName));
    await mkdir(home, { recursive: true });
    await removeOldDrafts(home);
    const draft = join(home, `${draftPrefix}${randomBytes(6).toString("hex")}`);
    try {
      await mkdir(join(draft, "files"), { recursive: true });
      const { entry, executables } = await fill(join(draft, "files"));
      const tree = await hashTree(join(draft, "files"), { executables, signal: this.#signal });
      const record = { ...entry, tree: tree.hash, files: recordedFiles(tree) };
      await writeFile(join(draft, recordName), `${JSON.stringify(record, undefined, 2)}\n`, { flag: "wx" });
      const folder = join(home, `${safeName(entry.platform)}-${shortHash(entry.hash)}`);
      await moveInto(draft, folder);
      return { folder, record: await recordIn(folder) };
    } catch (error) {
      await rm(draft, { recursive: true, force: true });
      await removeEmpty(home, this.#root);
      throw error;
    }
  }

  /** Notes that an entry was used. */
  async touch({ folder }: CacheEntry): Promise<void> {
    const now = new Date();
    try {
      await utimes(join(folder, recordName), now, now);
    } catch (error) {
      // A cache that is only readable works as well; its entries never look used.
      if (!hasCode(error, "EACCES", "EPERM", "EROFS")) throw error;
    }
  }

  /** Everything that is there, by package and version. What cannot be read is left out. */
  async list(): Promise<readonly CachedVersion[]> {
    const folders = (await entryFolders(this.#root)).sort();
    const versions = await Promise.all(folders.map(describe));
    return versions.filter((version) => version !== undefined);
  }

  async remove({ folder }: CachedVersion): Promise<void> {
    const below = relative(this.#root, folder);
    if (below === "" || below.startsWith("..")) throw new Error(`${folder} is not in the cache`);
    await rm(folder, { recursive: true, force: true });
    await removeEmpty(dirname(folder), this.#root);
  }
}

/** Looks at all files of an entry. */
export async function hashEntry(
  entry: CacheEntry,
  signal: AbortSignal,
): Promise<Awaited<ReturnType<typeof hashTree>>> {
  return hashTree(filesOf(entry), { executables: executablesOf(entry.record), signal });
}

function recordIn(folder: string): Promise<CacheRecord> {
  return readRecord(join(folder, recordName));
}

async function usedAt(folder: string): Promise<Date> {
  return (await stat(join(folder, recordName))).mtime;
}

async function describe(folder: string): Promise<CachedVersion | undefined> {
  try {
    const { package: name, version, platform, hash, files } = await recordIn(folder);
    const bytes = Object.values(files).reduce((sum, file) => sum + file.bytes, 0);
    return { package: name, version, platform, hash, bytes, usedAt: await usedAt(folder), folder };
  } catch {
    return undefined; // damaged, or removed meanwhile
  }
}

/** Folders below that have an `extension.json`; not those that are being made. */
async function entryFolders(folder: string): Promise<string[]> {
  const entries = await readFolder(folder);
  if (entries.some((entry) => entry.isFile() && entry.name === recordName)) return [folder];
  const below = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith(draftPrefix));
  return (await Promise.all(below.map(({ name }) => entryFolders(join(folder, name))))).flat();
}

async function readFolder(folder: string) {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if (hasCode(error, "ENOENT")) return [];
    throw error;
  }
}

/** When the folder is there already, somebody else has made the same. */
async function moveInto(draft: string, folder: string): Promise<void> {
  try {
    await rename(draft, folder);
  } catch (error) {
    const isThere = await stat(join(folder, recordName)).then(
      () => true,
      () => false,
    );
    if (!isThere) throw error;
    await rm(draft, { recursive: true, force: true });
  }
}

async function removeOldDrafts(home: string): Promise<void> {
  for (const { name } of await readFolder(home)) {
    if (!name.startsWith(draftPrefix)) continue;
    const path = join(home, name);
    const made = await stat(path).catch(() => undefined); // its maker may have just moved it
    if (made !== undefined && made.mtimeMs < Date.now() - draftLifeMs) {
      await rm(path, { recursive: true, force: true });
    }
  }
}

/** Removes a folder and those above it, as long as they are empty. */
async function removeEmpty(folder: string, root: string): Promise<void> {
  for (let path = folder; path !== root && path.startsWith(root); path = dirname(path)) {
    try {
      await rmdir(path);
    } catch (error) {
      if (hasCode(error, "ENOTEMPTY", "EEXIST", "EBUSY", "EPERM")) return;
      if (!hasCode(error, "ENOENT")) throw error;
    }
  }
}

/** A name of one folder, whatever the text is. */
function safeName(text: string): string {
  const name = text.replace(/[^\w.+@~-]/g, (character) => encodeURIComponent(character));
  return /^\.*$|^\.new-|[.]$/.test(name) ? `%${name}` : name;
}

/** The first 12 hex digits of `sha256:HEX`, or of what `sha512-BASE64` stands for. */
function shortHash(hash: string): string {
  const [, hex] = /^sha256:([0-9a-f]{64})$/.exec(hash) ?? [];
  const digits = hex ?? Buffer.from(hash.replace(/^\w+-/, ""), "base64").toString("hex");
  return digits.slice(0, 12);
}
