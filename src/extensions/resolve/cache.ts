import { maxPartBytes } from "../../base/limits.ts";
import { createHash, hash, randomBytes } from "node:crypto";
import { closeSync, fstatSync, lstatSync, openSync, readSync } from "node:fs";
import { readdir, rename, rm, rmdir, stat, utimes, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import * as z from "zod";
import { McpvalsError } from "../../base/error.ts";
import type { LockedExtension } from "../lock-file.ts";
import { withoutUndefined } from "../../base/json.ts";
import { makeFolder, readRegularFile } from "../../base/files.ts";
import { runningPlatform } from "../../process/environment.ts";
import { ownMark, removeLeftovers } from "../../process/folders.ts";
import { hasCode, integrityError, unwritable } from "./files.ts";

/** A file that a source offers for this platform. */
export interface Offer {
  /** As the source writes it. */
  readonly version: string;
  readonly name: string;
  readonly hash: string;
  /** `sha256:HEX` of the release's file of checksums. */
  readonly checksums?: string | undefined;
  /**
   * Fetches it, verifies it, and puts its files into an empty folder; beside that folder it may keep other files. Throws
   * McpvalsError `extension/integrity` when it is not what was offered.
   */
  readonly fetch: (folder: string) => Promise<FetchedFiles>;
}

export interface FetchedFiles {
  /** Such as `linux-amd64`, or `any`. */
  readonly platform: string;
  /** Paths of the executable files. */
  readonly executables: ReadonlySet<string>;
}

/** The source of one package with versions; it remembers its answers. */
export interface PackageSource {
  /** The newest version that matches the package as written. Throws McpvalsError `extension/not-found`. */
  newest(): Promise<string>;
  /**
   * The file of a version for this platform with its hash; it is not fetched yet. Throws McpvalsError `extension/not-found`,
   * and `extension/integrity` for a file that cannot be verified or differs from the lock or from `sha256`, in hex, that the
   * user has given.
   */
  offer(version: string, locked?: LockedExtension, sha256?: string): Promise<Offer>;
}

/** What a source needs. */
export interface SourceContext {
  readonly signal: AbortSignal;
  /** Called with one line for each download. */
  readonly onProgress: (message: string) => void;
}

/** The record of a version, `extension.json` beside its files. The lock takes precedence. */
const recordSchema = z.object({
  /** Without its version. */
  package: z.string(),
  version: z.string(),
  platform: z.string(),
  /** Name and hash of the file that was fetched, as in the lock. */
  name: z.string(),
  hash: z.string(),
  /** `sha256:HEX` of the release's file of checksums. */
  checksums: z.string().exactOptional(),
  tree: z.string(),
  /** By path: SHA-256 in hex, and whether it is executable, to report which file has changed. */
  files: z.record(z.string(), z.object({ hash: z.string(), executable: z.boolean(), bytes: z.number() })),
});
type CacheRecord = z.output<typeof recordSchema>;

/** A version in the cache. */
export interface CacheEntry {
  /** Absolute; has `files` and `extension.json`. */
  readonly folder: string;
  readonly record: CacheRecord;
}

/** What is known of a version in the cache. */
export interface CachedVersion {
  /** Without its version. */
  readonly package: string;
  readonly version: string;
  /** Such as `linux-amd64`, or `any`. */
  readonly platform: string;
  /** Of the file that was fetched, as the lock has it. */
  readonly hash: string;
  /** Of all unpacked files together. */
  readonly bytes: number;
  readonly usedAt: Date;
  /** Its record cannot be read, so it is never used, and only its folder is known. */
  readonly isDamaged?: true;
  /** Absolute. */
  readonly folder: string;
}

const recordName = "extension.json";
const draftPrefix = ".new-";
/** Age after which a draft is abandoned, also one of another machine. */
const draftLifeMs = 24 * 60 * 60 * 1000;
/** Levels of folders from the root to the folder of a version. */
const deepest = 4;
/** Not writable by others, whatever the umask is. */
const folderMode = 0o755;
const maxNameLength = 150;

export function filesOf({ folder }: CacheEntry): string {
  return join(folder, "files");
}

/** Versions of packages side by side: CACHE/PACKAGE/VERSION/PLATFORM-HASH. */
export class ExtensionCache {
  readonly #root: string;
  readonly #signal: AbortSignal;

  /** `root` is absolute; it is made when something is added. */
  constructor(root: string, signal: AbortSignal) {
    this.#root = root;
    this.#signal = signal;
  }

  /** All entries of a package, the last used first; those with a damaged record are left out. */
  async entries(packageName: string): Promise<readonly CacheEntry[]> {
    const folders = await subfolders(this.#placeOf(packageName), 2);
    const found = await Promise.all(folders.map((folder) => this.#describe(folder)));
    return found
      .flatMap((each) => (each?.record?.package === packageName ? { ...each, record: each.record } : []))
      .sort((a, b) => b.usedAt.getTime() - a.usedAt.getTime());
  }

  /**
   * The entry of a version that was made of a file with that hash. Throws McpvalsError `extension/integrity` when its
   * record is damaged.
   */
  async find(packageName: string, version: string, hash: string): Promise<CacheEntry | undefined> {
    const folders = await subfolders(this.#placeOf(packageName, version), 1);
    for (const folder of folders.filter((each) => each.endsWith(`-${shortHash(hash)}`))) {
      const record = this.#record(folder);
      if (record.hash === hash) return { folder, record };
    }
    return undefined;
  }

  /**
   * Fetches what is offered and makes an entry of it. Of several processes at the same time the first one makes it; an entry
   * that exists already must be the same. When anything fails, nothing is left. Throws McpvalsError `extension/integrity`.
   */
  async add(packageName: string, { fetch, version, name, hash, checksums }: Offer): Promise<CacheEntry> {
    const home = this.#placeOf(packageName, version);
    makeWritable(home, home);
    await removeDrafts(this.#root, deepest);
    const draft = join(home, `${draftPrefix}${ownMark()}-${randomBytes(6).toString("hex")}`);
    const files = join(draft, "files");
    try {
      makeWritable(files, home);
      const { platform, executables } = await fetch(files);
      const tree = await hashTree(files, { executables, signal: this.#signal });
      const source = {
        package: packageName,
        version,
        platform,
        name,
        hash,
        ...withoutUndefined({ checksums }),
      };
      const record = { ...source, tree: tree.hash, files: recordedFiles(tree) };
      const text = `${JSON.stringify(record, undefined, 2)}\n`;
      await writeFile(join(draft, recordName), text, { flag: "wx", mode: 0o644 });
      const folder = join(home, `${safeName(platform)}-${shortHash(hash)}`);
      await moveInto(draft, folder);
      const made = { folder, record: this.#record(folder) };
      if (made.record.tree === record.tree) return made;
      // It exists already, and may have been put there by somebody else.
      throw integrityError({
        file: `what is cached of ${packageName} ${version} in ${folder}`,
        expected: `${record.tree}, as it was fetched now`,
        found: made.record.tree,
        hint: `Somebody changed the cache. Find out who; then remove ${folder}, and it is fetched again.`,
      });
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

  /** Everything that is there, by package and version. What has another form than ours is left out. */
  async list(): Promise<readonly CachedVersion[]> {
    const folders = await subfolders(join(this.#root, "github.com"), 4);
    const found = await Promise.all(folders.sort().map((folder) => this.#describe(folder)));
    return found.flatMap((each): CachedVersion[] => {
      if (each === undefined) return [];
      const { folder, usedAt, record } = each;
      if (record === undefined) return [{ ...this.#fromPath(folder), usedAt, folder, isDamaged: true }];
      const { package: name, version, platform, hash, files } = record;
      const bytes = Object.values(files).reduce((sum, file) => sum + file.bytes, 0);
      return [{ package: name, version, platform, hash, bytes, usedAt, folder }];
    });
  }

  async remove({ folder }: CachedVersion): Promise<void> {
    const below = relative(this.#root, folder);
    if (below === "" || below.startsWith("..")) throw new Error(`${folder} is not in the cache`);
    await rm(folder, { recursive: true, force: true });
    await removeEmpty(dirname(folder), this.#root);
  }

  /** The folder of a package, or of one of its versions. */
  #placeOf(packageName: string, ...version: readonly string[]): string {
    return join(this.#root, ...[...packageName.split("/"), ...version].map(safeName));
  }

  /**
   * The record of an entry, which must belong to its folder. Throws McpvalsError `extension/integrity` when it does not, or
   * is damaged.
   */
  #record(folder: string): CacheRecord {
    const path = join(folder, recordName);
    try {
      const text = readRegularFile(path, maxPartBytes).toString("utf8");
      const record = recordSchema.parse(JSON.parse(text));
      const isHere = dirname(folder) === this.#placeOf(record.package, record.version);
      if (isHere && folder.endsWith(`-${shortHash(record.hash)}`)) return record;
      throw new Error("it belongs to another version than its folder");
    } catch (cause) {
      const message = `${path} is damaged, so what is beside it cannot be trusted.`;
      throw new McpvalsError("extension/integrity", message, {
        hint: "Remove its folder, as mcpvals extensions prune does; the extension is then fetched again.",
        cause,
      });
    }
  }

  /** Undefined for a folder that is not an entry; `record` is undefined when it is damaged. */
  async #describe(folder: string) {
    if (!/-[0-9a-f]{12}$/.test(folder)) return undefined;
    const found = await stat(join(folder, recordName)).catch(() => undefined);
    if (found === undefined) return undefined;
    let record: CacheRecord | undefined;
    try {
      record = this.#record(folder);
    } catch {
      // Resolving this version reports the reason.
    }
    return { folder, usedAt: found.mtime, record };
  }

  /** What the path of an entry says. */
  #fromPath(folder: string): Omit<CachedVersion, "usedAt" | "folder"> {
    return {
      package: relative(this.#root, dirname(dirname(folder))).replaceAll(sep, "/"),
      version: basename(dirname(folder)),
      platform: basename(folder).slice(0, -13),
      hash: "",
      bytes: 0,
    };
  }
}

/** Makes a folder that only this user can write; `home` is what errors name. */
function makeWritable(folder: string, home: string): void {
  try {
    makeFolder(folder, folderMode);
  } catch (error) {
    throw unwritable(home, error);
  }
}

async function readFolder(folder: string) {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory());
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return [];
    throw error;
  }
}

/** Folders some levels below, without drafts and links. */
async function subfolders(folder: string, levels: number): Promise<string[]> {
  if (levels === 0) return [folder];
  const below = (await readFolder(folder)).filter(({ name }) => !name.startsWith(draftPrefix));
  return (await Promise.all(below.map(({ name }) => subfolders(join(folder, name), levels - 1)))).flat();
}

/** When the folder exists already, another process has made the same. */
async function moveInto(draft: string, folder: string): Promise<void> {
  try {
    await rename(draft, folder);
  } catch (error) {
    if (lstatSync(join(folder, recordName), { throwIfNoEntry: false }) === undefined) throw error;
    await rm(draft, { recursive: true, force: true });
  }
}

/** Removes drafts of killed processes, in a folder and some levels below it. */
async function removeDrafts(folder: string, levels: number): Promise<void> {
  await removeLeftovers(folder, /^\.new-/);
  for (const { name } of await readFolder(folder)) {
    const path = join(folder, name);
    if (!name.startsWith(draftPrefix)) {
      if (levels > 0) await removeDrafts(path, levels - 1);
      continue;
    }
    const made = await stat(path).catch(() => undefined); // it may have been moved just now
    if (made !== undefined && made.mtimeMs < Date.now() - draftLifeMs) {
      await rm(path, { recursive: true, force: true });
    }
  }
}

/** Removes a folder and those above it that are empty. */
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

/** A valid name of a folder for any text. */
function safeName(text: string): string {
  const name = text.toWellFormed().replace(/[^\w.+@~-]/gu, (character) => encodeURIComponent(character));
  if (name.length > maxNameLength)
    return `%${name.slice(0, maxNameLength)}-${hash("sha256", text).slice(0, 12)}`;
  return /^\.*$|^\.new-|[.]$/.test(name) ? `%${name}` : name;
}

/** The first 12 hex digits of `sha256:HEX`. */
function shortHash(hash: string): string {
  return hash.slice("sha256:".length).slice(0, 12);
}

export function hashEntry(entry: CacheEntry, signal: AbortSignal): Promise<Tree> {
  const { files } = entry.record;
  const executables = new Set(Object.keys(files).filter((path) => files[path]?.executable === true));
  return hashTree(filesOf(entry), { executables, signal });
}

/** The files of a folder as a record has them. */
export function recordedFiles({ files }: Tree): CacheRecord["files"] {
  return Object.fromEntries(files.map(({ path, ...file }) => [path, file]));
}

const maxShown = 5;

/** The first few files that differ from their record, as text; undefined when none does. */
export function changedFiles({ files: recorded }: CacheRecord, { files }: Tree): string | undefined {
  const gone = new Set(Object.keys(recorded));
  const changes = files.flatMap(({ path, hash, executable }) => {
    const before = gone.delete(path) ? recorded[path] : undefined;
    if (before === undefined) return [`${path} was added`];
    if (before.hash !== hash) return [`${path} was changed`];
    return before.executable === executable ? [] : [`${path} was made ${executable ? "" : "not "}executable`];
  });
  const all = [...changes, ...[...gone].map((path) => `${path} was removed`)];
  if (all.length === 0) return undefined;
  const rest = all.length > maxShown ? [`${all.length - maxShown} more`] : [];
  return [...all.slice(0, maxShown), ...rest].join(", ");
}

/** A file of a folder. */
export interface TreeFile {
  /** Relative, with slashes. */
  readonly path: string;
  /** SHA-256 in hex. */
  readonly hash: string;
  readonly executable: boolean;
  readonly bytes: number;
}

export interface Tree {
  /** `sha256:HEX` over the names, the executable bits and the content of all files; empty folders do not count. */
  readonly hash: string;
  /** In the order of their paths. */
  readonly files: readonly TreeFile[];
  /** Whether no file or folder has changed since it was read, according to the file system. */
  readonly isUntouched: () => boolean;
}

/**
 * Reads every file of a folder; `executables` are the paths of executable files, for systems without an executable bit. Throws
 * McpvalsError `extension/integrity` for anything but files and folders, such as links.
 */
export async function hashTree(
  folder: string,
  { executables, signal }: { readonly executables: ReadonlySet<string>; readonly signal: AbortSignal },
): Promise<Tree> {
  const stamps = new Map<string, string>();
  // The order of code units is independent of the locale.
  const paths = (await listFiles(folder, stamps)).sort();
  const files: TreeFile[] = [];
  for (const path of paths) {
    const { mode, ...content } = await hashFile(join(folder, path), signal);
    const executable = runningPlatform() === "win32" ? executables.has(path) : (mode & 0o100) !== 0;
    files.push({ path, executable, ...content });
  }
  const lines = files.map(
    ({ path, hash, executable }) => `${executable ? "x" : "-"} ${hash} ${JSON.stringify(path)}\n`,
  );
  return {
    hash: `sha256:${hash("sha256", lines.join(""))}`,
    files,
    isUntouched: () => [...stamps].every(([path, stamp]) => stampOf(path) === stamp),
  };
}

/**
 * A text that changes with every change of a file or folder: only root can set its ctime back. Undefined when it does not
 * exist.
 */
function stampOf(path: string): string | undefined {
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return found && `${found.dev} ${found.ino} ${found.size} ${found.mode} ${found.ctimeNs}`;
}

/** Paths of all files below a folder, relative and with slashes. Adds the stamps of all files and folders to `stamps`. */
export async function listFiles(folder: string, stamps = new Map<string, string>()): Promise<string[]> {
  stamps.set(folder, stampOf(folder) ?? "");
  const entries = await readdir(folder, { withFileTypes: true });
  const found = await Promise.all(
    entries.map(async (entry) => {
      const path = join(folder, entry.name);
      if (entry.isFile()) {
        stamps.set(path, stampOf(path) ?? "");
        return [entry.name];
      }
      if (entry.isDirectory()) return (await listFiles(path, stamps)).map((each) => `${entry.name}/${each}`);
      const message = `${path} is neither a file nor a folder, which extensions must not contain. Nothing of it was run.`;
      throw new McpvalsError("extension/integrity", message, {
        hint: "Find out who put it there; then remove that version and fetch it again.",
      });
    }),
  );
  return found.flat();
}

/** In bytes. */
const pieceBytes = 1024 * 1024;
const piece = Buffer.allocUnsafeSlow(pieceBytes);

/** SHA-256 of a file in hex. It is read synchronously, piece by piece: several times as fast for many small files. */
async function hashFile(
  path: string,
  signal: AbortSignal,
): Promise<{ readonly hash: string; readonly bytes: number; readonly mode: number }> {
  const file = openSync(path, "r");
  try {
    const sum = createHash("sha256");
    for (let bytes = 0; ;) {
      await turn();
      signal.throwIfAborted();
      const length = readSync(file, piece);
      if (length === 0) return { hash: sum.digest("hex"), bytes, mode: fstatSync(file).mode };
      sum.update(piece.subarray(0, length));
      bytes += length;
    }
  } finally {
    closeSync(file);
  }
}

/** `sha256:HEX` */
export function hashBytes(content: Uint8Array): string {
  return `sha256:${hash("sha256", content)}`;
}

/** `sha256:HEX` of a program; undefined for one that is not readable. */
export async function programHash(path: string): Promise<string | undefined> {
  try {
    return `sha256:${(await hashFile(path, new AbortController().signal)).hash}`;
  } catch (error) {
    if (hasCode(error, "EACCES", "EPERM")) return undefined;
    throw error;
  }
}
