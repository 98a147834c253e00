import { createHash, hash, randomBytes } from "node:crypto";
import { closeSync, createReadStream, fstatSync, lstatSync, openSync, readFileSync, readSync } from "node:fs";
import { readdir, rename, rm, rmdir, stat, utimes, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import * as z from "zod";
import { McpvalsError } from "../../core/errors/error.ts";
import { makeFolder } from "../../files/make-folder.ts";
import { readRegularFile } from "../../files/read-file.ts";
import { runningPlatform } from "../../process/environment.ts";
import { ownMark, removeLeftovers } from "../../process/folders.ts";
import { hasCode, integrityError, unwritable } from "./files.ts";
import type { CachedVersion } from "./extension-resolver.ts";

/** A version in the cache. */
export interface CacheEntry {
  /** Absolute; has `files` and `extension.json`. */
  readonly folder: string;
  readonly record: CacheRecord;
}

/** The record of a new version; the rest is computed from its files. */
export type NewEntry = Omit<CacheRecord, "tree" | "files">;

const recordName = "extension.json";
const draftPrefix = ".new-";
/** Levels of folders from the root to the folder of a version. */
const deepest = 4;
/** Age after which a draft is abandoned, also one of another machine. */
const draftLifeMs = 24 * 60 * 60 * 1000;

/** Not writable by others, whatever the umask is. */
const folderMode = 0o755;
/** Longest name of a folder. */
const longestName = 150;

/** The folder that has an entry's files. */
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
    const folders = await subfolders(placeOf(this.#root, packageName), 2);
    const found = await Promise.all(folders.map((folder) => describe(folder, this.#root)));
    return found
      .flatMap((each) => (each?.record === undefined ? [] : [{ ...each, record: each.record }]))
      .filter(({ record }) => record.package === packageName)
      .sort((a, b) => b.usedAt.getTime() - a.usedAt.getTime());
  }

  /**
   * The entry of a version that was made of a file with that hash. Throws McpvalsError `extension/integrity` when its
   * record is damaged.
   */
  async find(packageName: string, version: string, hash: string): Promise<CacheEntry | undefined> {
    const folders = await subfolders(placeOf(this.#root, packageName, version), 1);
    for (const folder of folders.filter((each) => each.endsWith(`-${shortHash(hash)}`))) {
      const record = await recordIn(folder, this.#root);
      if (record.hash === hash) return { folder, record };
    }
    return undefined;
  }

  /**
   * Makes an entry of the files that `fill` puts into a folder; `fill` gives the record and the paths of the executable files.
   * Of several processes at the same time the first one makes it; an entry that exists already must be the same. When
   * anything fails, nothing is left. Throws McpvalsError `extension/integrity`.
   */
  async add(
    packageName: string,
    version: string,
    fill: (folder: string) => Promise<{ entry: NewEntry; executables: ReadonlySet<string> }>,
  ): Promise<CacheEntry> {
    const home = placeOf(this.#root, packageName, version);
    makeWritable(home, home);
    await removeDrafts(this.#root, deepest);
    const draft = join(home, `${draftPrefix}${ownMark()}-${randomBytes(6).toString("hex")}`);
    try {
      makeWritable(join(draft, "files"), home);
      const { entry, executables } = await fill(join(draft, "files"));
      const tree = await hashTree(join(draft, "files"), { executables, signal: this.#signal });
      const record = { ...entry, tree: tree.hash, files: recordedFiles(tree) };
      const text = `${JSON.stringify(record, undefined, 2)}\n`;
      await writeFile(join(draft, recordName), text, { flag: "wx", mode: 0o644 });
      const folder = join(home, `${safeName(entry.platform)}-${shortHash(entry.hash)}`);
      await moveInto(draft, folder);
      const made = { folder, record: await recordIn(folder, this.#root) };
      checkSame(made, record);
      return made;
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
    const folders = await Promise.all([
      subfolders(join(this.#root, "github.com"), 4),
      subfolders(join(this.#root, "npm"), 3),
      subfolders(join(this.#root, "npm"), 4),
    ]);
    const versions = await Promise.all(
      folders
        .flat()
        .sort()
        .map((folder) => describe(folder, this.#root)),
    );
    return versions.flatMap((version) => (version === undefined ? [] : [cachedVersion(version, this.#root)]));
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

/** The record of an entry, which must belong to its folder. */
function recordIn(folder: string, root: string): Promise<CacheRecord> {
  return readRecord(join(folder, recordName), ({ package: name, version, hash }) => {
    const isHere = dirname(folder) === placeOf(root, name, version);
    return isHere && folder.endsWith(`-${shortHash(hash)}`);
  });
}

interface Described {
  readonly folder: string;
  readonly usedAt: Date;
  /** Undefined when it is damaged. */
  readonly record: CacheRecord | undefined;
}

/** Undefined for a folder that is not an entry. */
async function describe(folder: string, root: string): Promise<Described | undefined> {
  if (!/-[0-9a-f]{12}$/.test(folder)) return undefined;
  const [record, found] = await Promise.all([
    recordIn(folder, root).catch(() => undefined), // resolving this version reports the reason
    stat(join(folder, recordName)).catch(() => undefined),
  ]);
  return found === undefined ? undefined : { folder, usedAt: found.mtime, record };
}

function cachedVersion({ folder, usedAt, record }: Described, root: string): CachedVersion {
  if (record === undefined) return { ...fromPath(folder, root), usedAt, folder, isDamaged: true };
  const { package: name, version, platform, hash, files } = record;
  const bytes = Object.values(files).reduce((sum, file) => sum + file.bytes, 0);
  return { package: name, version, platform, hash, bytes, usedAt, folder };
}

/** What the path of an entry says. */
function fromPath(folder: string, root: string): Omit<CachedVersion, "usedAt" | "folder"> {
  const [source = "", ...rest] = relative(root, dirname(dirname(folder))).split(sep);
  return {
    package: source === "npm" ? `npm:${rest.join("/")}` : [source, ...rest].join("/"),
    version: basename(dirname(folder)),
    platform: basename(folder).slice(0, -13),
    hash: "",
    bytes: 0,
  };
}

/** An existing entry may have been put there by somebody else. */
function checkSame({ folder, record }: CacheEntry, { package: name, version, tree }: CacheRecord): void {
  if (record.tree === tree) return;
  throw integrityError({
    file: `what is cached of ${name} ${version} in ${folder}`,
    expected: `${tree}, as it was fetched now`,
    found: record.tree,
    hint: `Somebody changed the cache. Find out who; then remove ${folder}, and it is fetched again.`,
  });
}

/** Makes a folder that only this user can write; `home` is what errors name. */
function makeWritable(folder: string, home: string): void {
  try {
    makeFolder(folder, folderMode);
  } catch (error) {
    throw unwritable(home, error);
  }
}

/** Folders some levels below, without drafts and links. */
async function subfolders(folder: string, levels: number): Promise<string[]> {
  if (levels === 0) return [folder];
  const below = (await readFolder(folder)).filter(
    (entry) => entry.isDirectory() && !entry.name.startsWith(draftPrefix),
  );
  return (await Promise.all(below.map(({ name }) => subfolders(join(folder, name), levels - 1)))).flat();
}

/** The folder of a package, or of one of its versions. */
function placeOf(root: string, packageName: string, ...version: readonly string[]): string {
  return join(root, ...[...packageName.split(/[/:]/), ...version].map(safeName));
}

async function readFolder(folder: string) {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return [];
    throw error;
  }
}

/** When the folder exists already, another process has made the same. */
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

/** Removes drafts of killed processes, in a folder and some levels below it. */
async function removeDrafts(folder: string, levels: number): Promise<void> {
  await removeLeftovers(folder, /^\.new-/);
  for (const entry of await readFolder(folder)) {
    if (!entry.isDirectory()) continue;
    const path = join(folder, entry.name);
    if (!entry.name.startsWith(draftPrefix)) {
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
  if (name.length > longestName) return `%${name.slice(0, longestName)}-${hash("sha256", text).slice(0, 12)}`;
  return /^\.*$|^\.new-|[.]$/.test(name) ? `%${name}` : name;
}

/** The first 12 hex digits of `sha256:HEX`, or of what `sha512-BASE64` stands for. */
function shortHash(hash: string): string {
  const [, hex] = /^sha256:([0-9a-f]{64})$/.exec(hash) ?? [];
  const digits = hex ?? Buffer.from(hash.replace(/^\w+-/, ""), "base64").toString("hex");
  return digits.slice(0, 12);
}

/** The record of a version, `extension.json` beside its files. The lock takes precedence. */
export interface CacheRecord {
  /** Without its version. */
  readonly package: string;
  readonly version: string;
  readonly platform: string;
  /** Name and hash of the file that was fetched, as in the lock. */
  readonly name: string;
  readonly hash: string;
  /** `sha256:HEX` of the release's file of checksums. */
  readonly checksums?: string;
  readonly tree: string;
  /** By path: SHA-256 in hex, and whether it is executable, to report which file has changed. */
  readonly files: Readonly<Record<string, RecordedFile>>;
}

interface RecordedFile {
  readonly hash: string;
  readonly executable: boolean;
  readonly bytes: number;
}

/** In bytes; twice the record of the largest allowed number of files. */
const largestRecord = 16 * 1024 * 1024;

const schema = z.object({
  package: z.string(),
  version: z.string(),
  platform: z.string(),
  name: z.string(),
  hash: z.string(),
  checksums: z.string().exactOptional(),
  tree: z.string(),
  files: z.record(z.string(), z.object({ hash: z.string(), executable: z.boolean(), bytes: z.number() })),
});

/** Reads `extension.json`. Throws McpvalsError `extension/integrity` when it is damaged, or `isRight` is false. */
async function readRecord(path: string, isRight: (record: CacheRecord) => boolean): Promise<CacheRecord> {
  try {
    const record = schema.parse(JSON.parse(readRegularFile(path, largestRecord).toString("utf8")));
    if (!isRight(record)) throw new Error("it belongs to another version than its folder");
    return record;
  } catch (cause) {
    throw new McpvalsError(
      "extension/integrity",
      `${path} is damaged, so what is beside it cannot be trusted.`,
      {
        hint: "Remove its folder, as mcpvals extensions prune does; the extension is then fetched again.",
        cause,
      },
    );
  }
}

/** The paths of the executable files. */
function executablesOf({ files }: CacheRecord): ReadonlySet<string> {
  return new Set(Object.keys(files).filter((path) => files[path]?.executable === true));
}

/** The files of a folder as a record has them. */
export function recordedFiles({ files }: Tree): CacheRecord["files"] {
  return Object.fromEntries(
    files.map(({ path, hash, executable, bytes }) => [path, { hash, executable, bytes }]),
  );
}

/** The first few files that differ from their record, as text; undefined when none does. */
export function changedFiles({ files: recorded }: CacheRecord, { files }: Tree): string | undefined {
  const found = new Set(files.map(({ path }) => path));
  const gone = Object.keys(recorded).filter((path) => !found.has(path));
  const others = files.flatMap(({ path, hash, executable }) => {
    const before = Object.hasOwn(recorded, path) ? recorded[path] : undefined;
    if (before === undefined) return [`${path} was added`];
    if (before.hash !== hash) return [`${path} was changed`];
    return before.executable === executable ? [] : [`${path} was made ${executable ? "" : "not "}executable`];
  });
  const all = [...others, ...gone.map((path) => `${path} was removed`)];
  if (all.length === 0) return undefined;
  const rest = all.length > mostShown ? [`${all.length - mostShown} more`] : [];
  return [...all.slice(0, mostShown), ...rest].join(", ");
}

const mostShown = 5;

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

export interface TreeOptions {
  /** Paths of executable files, for systems without an executable bit. */
  readonly executables: ReadonlySet<string>;
  readonly signal: AbortSignal;
}

/** Reads every file of a folder. Throws McpvalsError `extension/integrity` for anything but files and folders, such as links. */
export async function hashTree(folder: string, options: TreeOptions): Promise<Tree> {
  const stamps = new Map<string, string>();
  const paths = (await listFiles(folder, stamps)).sort(byCodeUnits);
  const files: TreeFile[] = [];
  for (const path of paths) {
    if (files.length % filesInTurn === 0) await turn();
    options.signal.throwIfAborted();
    files.push(await hashFile(folder, path, options));
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

/** Reading is synchronous, which is several times as fast for many small files; the event loop continues after so many. */
const filesInTurn = 50;
/** Files up to this size are read at once, larger ones in pieces. */
const pieceBytes = 1024 * 1024;

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
      if (!entry.isDirectory()) throw notPlain(path);
      const below = await listFiles(path, stamps);
      return below.map((path) => `${entry.name}/${path}`);
    }),
  );
  return found.flat();
}

/** `sha256:HEX` */
export function hashBytes(content: Uint8Array): string {
  return `sha256:${hash("sha256", content)}`;
}

function notPlain(path: string): McpvalsError {
  return new McpvalsError(
    "extension/integrity",
    `${path} is neither a file nor a folder, which extensions must not contain. Nothing of it was run.`,
    { hint: "Find out who put it there; then remove that version and fetch it again." },
  );
}

async function hashFile(folder: string, path: string, options: TreeOptions): Promise<TreeFile> {
  const file = openSync(join(folder, path), "r");
  try {
    const { size, mode } = fstatSync(file);
    const executable = runningPlatform() === "win32" ? options.executables.has(path) : (mode & 0o100) !== 0;
    if (size <= pieceBytes) {
      const content = readFileSync(file);
      return { path, hash: hash("sha256", content), executable, bytes: content.length };
    }
    return { path, executable, ...(await hashPieces(file, options.signal)) };
  } finally {
    closeSync(file);
  }
}

async function hashPieces(file: number, signal: AbortSignal): Promise<{ hash: string; bytes: number }> {
  const sum = createHash("sha256");
  const piece = Buffer.allocUnsafe(pieceBytes);
  for (let bytes = 0; ;) {
    const length = readSync(file, piece, 0, pieceBytes, bytes);
    if (length === 0) return { hash: sum.digest("hex"), bytes };
    sum.update(piece.subarray(0, length));
    bytes += length;
    await turn();
    signal.throwIfAborted();
  }
}

/** Independent of the locale. */
function byCodeUnits(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** `sha256:HEX` of a program; undefined for one that is not readable. */
export async function programHash(path: string): Promise<string | undefined> {
  const sum = createHash("sha256");
  try {
    for await (const piece of createReadStream(path)) sum.update(piece as Buffer);
  } catch (error) {
    if (hasCode(error, "EACCES", "EPERM")) return undefined;
    throw error;
  }
  return `sha256:${sum.digest("hex")}`;
}
