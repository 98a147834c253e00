import { existsSync } from "node:fs";
import { relative, resolve } from "node:path";
import { Argument, type Command, Option } from "commander";
import semver from "semver";
import { McpvalsError } from "../../core/errors/error.ts";
import { listNames, suggestion } from "../../core/formats/did-you-mean.ts";
import type { LockedExtension, LockFile } from "../../core/formats/extension/lock-file.ts";
import { visibleText } from "../../core/text/visible-text.ts";
import type { CachedVersion } from "../../extensions/resolve/cache.ts";
import { readLock, writeLock } from "../../extensions/resolve/files.ts";
import {
  createResolver,
  extensionPlaces,
  type ExtensionResolver,
} from "../../extensions/resolve/resolver.ts";
import { environment } from "../../load/environment.ts";
import { countOf, displayWidth, padToWidth } from "../../reporters/text.ts";
import { age, duration, jsonObject, type SetExitCode, sha256, subcommand } from "../flags.ts";
import { workingFolder, writeError, writeJson, writeOut } from "../terminal.ts";
import type { ContractFlags } from "./extensions-test.ts";

/** `mcpvals extensions`: the extensions that the lock of this folder names, and the cache. */
export function define(command: Command, setExitCode: SetExitCode): void {
  const add = (name: string, description: string): Command =>
    subcommand(command, name, description).addOption(new Option("--json", "print the answer as JSON"));
  withCache(add("list", "list locked and cached extensions, without network")).action(
    async (flags: ExtensionFlags) => setExitCode(await list(flags)),
  );
  withSource(add("add", "download a package, verify its files and lock it"))
    .addArgument(new Argument("<package>", "github.com/ORG/REPO@VERSION or npm:NAME@VERSION, as in tasks"))
    .addOption(new Option("--sha256 <hex>", "SHA-256 that the downloaded file must have").argParser(sha256))
    .action(async (name: string, flags: AddFlags) => setExitCode(await addPackage(name, flags)));
  withSource(add("update", "lock the newest versions that match the tasks"))
    .addArgument(new Argument("[names...]", "packages, or the last parts of their names (default: all)"))
    .action(async (names: readonly string[], flags: ExtensionFlags) =>
      setExitCode(await update(names, flags)),
    );
  withSource(add("pin", "lock one version, regardless of the tasks; without network if it is cached"))
    .addArgument(new Argument("<name@version>", "a package of the lock, or the last part of its name"))
    .action(async (target: string, flags: ExtensionFlags) => setExitCode(await pin(target, flags)));
  withCache(
    add("verify", "compare cached files with the lock; exit 1 if they differ, 3 if some are missing"),
  ).action(async (flags: ExtensionFlags) => setExitCode(await verify(flags)));
  withCache(add("prune", "remove old cached versions that are not in this lock"))
    .addOption(
      new Option(
        "--older-than <age>",
        "minimum time since last use, such as 12h or 30d (default: 30d)",
      ).argParser(age),
    )
    .addOption(new Option("--dry-run", "only list what would be removed"))
    .action(async (flags: PruneFlags) => setExitCode(await prune(flags)));
  add("test", "test whether a program is a valid extension; exit 1 if not")
    .addArgument(new Argument("<program>", "the program, a folder with an extension.yaml, or mcpvals:NAME"))
    .addOption(
      new Option("--config <json>", "settings of the extension, a JSON object").argParser(jsonObject),
    )
    .addOption(
      new Option("--timeout <duration>", "time limit of one answer (default: 10s)").argParser(duration),
    )
    .action(async (program: string, flags: ContractFlags) => {
      const { testExtension } = await import("./extensions-test.ts");
      setExitCode(await testExtension(program, flags));
    });
}

function withCache(command: Command): Command {
  return command.addOption(
    new Option("--cache-dir <dir>", "folder of downloaded extensions (default: ~/.mcpvals/extensions)"),
  );
}

function withSource(command: Command): Command {
  return withCache(command).addOption(
    new Option("--releases-url <url>", "URL of the releases API, such as a mirror"),
  );
}

/** The flags that all commands for extensions have. */
export interface ExtensionFlags {
  readonly json?: boolean;
  readonly cacheDir?: string;
  readonly releasesUrl?: string;
}

/** The cache, and the lock that is valid in the working folder. */
export interface OpenExtensions {
  readonly cwd: string;
  readonly resolver: ExtensionResolver;
  readonly lock: LockFile;
  /** Path of the lock as it is shown. */
  readonly shownLock: string;
  /** The sentence for a lock without entries. */
  readonly nothingLocked: string;
  /** Puts entries into the lock, by package as it is written. */
  readonly save: (entries: Readonly<Record<string, LockedExtension>>) => Promise<void>;
}

/** Opens the cache and reads the lock. Throws `extension/invalid-lock`. */
export async function openExtensions({ cacheDir, releasesUrl }: ExtensionFlags): Promise<OpenExtensions> {
  const cwd = workingFolder();
  const folder = cacheDir === undefined ? undefined : resolve(cwd, cacheDir);
  const places = extensionPlaces({ options: { cacheDir: folder, releasesUrl }, env: environment() });
  const { signal } = new AbortController();
  const { path, lock } = await readLock(cwd);
  const shownLock = relative(cwd, path) || path;
  const why = existsSync(path)
    ? `${shownLock} names no extension`
    : `there is no ${shownLock} in this folder or above it`;
  return {
    cwd,
    resolver: createResolver({ ...places, dir: cwd, signal, onProgress: writeError }),
    lock,
    shownLock,
    nothingLocked: visibleText(`Nothing is locked: ${why}.`),
    save: (entries) => writeLock(path, { ...lock, extensions: { ...lock.extensions, ...entries } }),
  };
}

/** An entry of the lock with the package as it is written in files. */
interface LockedEntry extends LockedExtension {
  readonly written: string;
}

/** All entries, in the order of the lock. */
function lockedEntries({ extensions }: LockFile): readonly LockedEntry[] {
  return Object.entries(extensions).map(([written, entry]) => ({ ...entry, written }));
}

/**
 * The entries that a name means: the package as it is written, the package without its version, or the last part of that.
 * Throws `extension/not-locked` when there is none.
 */
function entriesNamed(name: string, lock: LockFile): readonly LockedEntry[] {
  const entries = lockedEntries(lock);
  for (const namesOf of [writtenName, packageName, lastName]) {
    const found = entries.filter((entry) => namesOf(entry) === name);
    if (found.length > 0) return found;
  }
  throw new McpvalsError(
    "extension/not-locked",
    `no extension of the lock is named ${JSON.stringify(name)}`,
    {
      hint:
        entries.length === 0
          ? "Nothing is locked yet; mcpvals extensions add PACKAGE locks a first one."
          : suggestion(
              name,
              [...new Set(entries.flatMap((entry) => [lastName(entry), entry.package]))],
              "extensions",
            ),
    },
  );
}

/** Whether something in the cache is what an entry names. */
function isCacheOf(cached: CachedVersion, entry: LockedEntry): boolean {
  const isSame = cached.package === entry.package && cached.version === entry.version;
  return isSame && Object.values(entry.files).some(({ hash }) => hash === cached.hash);
}

function writtenName({ written }: LockedEntry): string {
  return written;
}

function packageName(entry: LockedEntry): string {
  return entry.package;
}

function lastName({ package: name }: LockedEntry): string {
  return name.split(/[/:]/).at(-1) ?? name;
}

/** An answer in both of its forms. Lines are safe to print. */
interface Answer {
  readonly json: unknown;
  readonly lines: readonly string[];
}

/** Writes an answer to stdout, as JSON when that was asked for. */
export function writeAnswer(
  { json, lines }: Answer,
  { json: wantsJson = false }: { readonly json?: boolean },
): void {
  if (wantsJson) writeJson(json, 2);
  else if (lines.length > 0) writeOut(lines.join("\n"));
}

/** Rows as lines that are safe to print, their cells in columns. */
export function columns(written: readonly (readonly string[])[]): string[] {
  const rows = written.map((row) => row.map((cell) => visibleText(cell)));
  const widths: number[] = [];
  for (const row of rows)
    for (const [index, cell] of row.entries())
      widths[index] = Math.max(widths[index] ?? 0, displayWidth(cell));
  return rows.map((row) =>
    row
      .map((cell, index) => padToWidth(cell, widths[index] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

/** A size for people: `512 B`, `3.4 kB`, `12.0 MB`. */
function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit] ?? ""}`;
}

/** `mcpvals extensions list`; returns the exit code. . */
async function list(flags: ExtensionFlags): Promise<number> {
  const { resolver, lock, shownLock, nothingLocked } = await openExtensions(flags);
  const cached = await resolver.cached();
  const locked = lockedEntries(lock).map((entry) => describeEntry(entry, cached));
  const others = cached.filter((version) => !locked.some(({ files }) => files.includes(version)));
  writeAnswer(
    {
      json: {
        lock: shownLock,
        extensions: locked.map(({ entry, files, newer }) => ({
          written: entry.written,
          package: entry.package,
          version: entry.version,
          platforms: Object.keys(entry.files),
          cached: files.map(cachedReport),
          newer: newer ?? null,
        })),
        others: others.map(cachedReport),
      },
      lines: [
        ...(locked.length === 0 ? [nothingLocked] : [shownLock, ...indented(columns(locked.map(lockedRow)))]),
        ...(others.length === 0 ? [] : ["", "Cached besides", ...indented(columns(others.map(otherRow)))]),
      ],
    },
    flags,
  );
  return 0;
}

interface DescribedEntry {
  readonly entry: LockedEntry;
  /** What the cache has of it. */
  readonly files: readonly CachedVersion[];
  /** The newest later version that is cached. */
  readonly newer: string | undefined;
}

function describeEntry(entry: LockedEntry, cached: readonly CachedVersion[]): DescribedEntry {
  const same = cached.filter((version) => version.package === entry.package);
  return {
    entry,
    files: same.filter((each) => isCacheOf(each, entry)),
    newer: newest(same.map(({ version }) => version).filter((version) => isNewer(version, entry.version))),
  };
}

function isNewer(version: string, than: string): boolean {
  const [a, b] = [semver.parse(version), semver.parse(than)];
  return a !== null && b !== null && semver.gt(a, b);
}

function newest(versions: readonly string[]): string | undefined {
  return versions.toSorted((a, b) => semver.rcompare(a, b))[0];
}

function cachedReport({ package: name, version, platform, bytes, usedAt, folder }: CachedVersion): {
  readonly [key: string]: string | number;
} {
  return { package: name, version, platform, bytes, usedAt: usedAt.toISOString(), folder };
}

function lockedRow({ entry, files, newer }: DescribedEntry): string[] {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const state = files.length === 0 ? "not cached" : `cached, ${formatBytes(bytes)}`;
  const facts = newer === undefined ? state : `${state}; ${newer} is cached too`;
  return [entry.written, entry.version, `for ${Object.keys(entry.files).join(", ")}`, facts];
}

function otherRow({ package: name, version, platform, bytes, usedAt, isDamaged }: CachedVersion): string[] {
  if (isDamaged === true) return [name, version, `for ${platform}`, "damaged; prune removes it"];
  const days = Math.floor((Date.now() - usedAt.getTime()) / 86_400_000);
  const used = days < 1 ? "used today" : `used ${countOf(days, "day")} ago`;
  return [name, version, `for ${platform}`, `${formatBytes(bytes)}, ${used}`];
}

function indented(lines: readonly string[]): string[] {
  return lines.map((line) => `  ${line}`);
}

interface AddFlags extends ExtensionFlags {
  readonly sha256?: string;
}

/**
 * `mcpvals extensions add`; returns the exit code. fetches a package, verifies its files, and locks it.
 * Throws McpvalsError of the codes `extension/…`.
 */
async function addPackage(written: string, flags: AddFlags): Promise<number> {
  const { cwd, resolver, lock, shownLock, save } = await openExtensions(flags);
  const before = Object.hasOwn(lock.extensions, written) ? lock.extensions[written] : undefined;
  const how = {
    frozen: false,
    offline: false,
    ...(flags.sha256 === undefined ? {} : { sha256: flags.sha256 }),
  };
  const { extension, locked } = await resolver.resolve({ package: written, dir: cwd }, before, how);
  if (locked === undefined) throw needsNoLock(written);
  const isNew = JSON.stringify(locked) !== JSON.stringify(before);
  if (isNew) await save({ [written]: locked });
  const { version } = locked;
  const line = isNew
    ? `${written} is now locked at ${version} in ${shownLock}`
    : `${written} was locked at ${version} in ${shownLock} before; its files are as they should be`;
  writeAnswer(
    {
      json: { lock: shownLock, written, ...locked, folder: extension.folder, added: isNew },
      lines: [visibleText(line)],
    },
    flags,
  );
  return 0;
}

function needsNoLock(written: string): McpvalsError {
  const what = written.startsWith("mcpvals:") ? "comes with mcpvals" : "is a path";
  return new McpvalsError("usage/invalid-option", `${written} ${what}, so that there is nothing to fetch`, {
    hint: "Tasks can use it as it is; only what is fetched is locked.",
  });
}

interface Update {
  readonly entry: LockedEntry;
  /** Undefined when it is the newest. */
  readonly locked?: LockedExtension;
}

/**
 * `mcpvals extensions update`; returns the exit code. It locks the newest version that matches what is written.
 * When one of the packages fails, nothing is changed. Throws McpvalsError of the codes `extension/…`.
 */
async function update(names: readonly string[], flags: ExtensionFlags): Promise<number> {
  const open = await openExtensions(flags);
  const { lock, shownLock, nothingLocked, save } = open;
  const all = names.length === 0 ? lockedEntries(lock) : names.flatMap((name) => entriesNamed(name, lock));
  const entries = new Map(all.map((entry) => [entry.written, entry]));
  const updates = await Promise.all([...entries.values()].map((entry) => updateOne(entry, open)));
  const changed = updates.flatMap(({ entry, locked }) =>
    locked === undefined ? [] : [[entry.written, locked]],
  );
  if (changed.length > 0) await save(Object.fromEntries(changed) as Record<string, LockedExtension>);
  const json = updates.map(({ entry, locked }) => ({
    written: entry.written,
    from: entry.version,
    to: locked?.version ?? entry.version,
  }));
  const lines = updates.length === 0 ? [nothingLocked] : updatedRows(updates);
  writeAnswer({ json: { lock: shownLock, updates: json }, lines }, flags);
  return 0;
}

async function updateOne(entry: LockedEntry, { resolver, lock }: OpenExtensions): Promise<Update> {
  const version = await resolver.newest(entry.written);
  if (version === entry.version) return { entry };
  return { entry, locked: await resolver.pin(entry.written, version, lock.extensions[entry.written]) };
}

function updatedRows(updates: readonly Update[]): string[] {
  return columns(
    updates.map(({ entry, locked }) => [
      entry.written,
      locked === undefined ? `${entry.version} is the newest` : `${entry.version} -> ${locked.version}`,
    ]),
  );
}

/**
 * `mcpvals extensions pin`; returns the exit code. locks one version of a package, whatever files say of the
 * version, without the network when it is cached. Throws McpvalsError of the codes `extension/…`.
 */
async function pin(target: string, flags: ExtensionFlags): Promise<number> {
  const { name, version } = nameAndVersion(target);
  const { resolver, lock, shownLock, save } = await openExtensions(flags);
  const { written, version: before } = onlyEntry(name, lock);
  const locked = await resolver.pin(written, version, lock.extensions[written]);
  await save({ [written]: locked });
  const json = { lock: shownLock, written, from: before, to: locked.version };
  const how = before === locked.version ? `stays at ${before}` : `${before} -> ${locked.version}`;
  writeAnswer({ json, lines: [visibleText(`${written}  ${how}  in ${shownLock}`)] }, flags);
  return 0;
}

function nameAndVersion(target: string): { readonly name: string; readonly version: string } {
  const split = target.lastIndexOf("@");
  const [name, version] = [target.slice(0, split), target.slice(split + 1)];
  if (split > 0 && version !== "" && !version.includes("/")) return { name, version };
  throw new McpvalsError("usage/invalid-option", `${JSON.stringify(target)} names no version`, {
    hint: "Write it as NAME@VERSION; mcpvals extensions list shows the names.",
  });
}

function onlyEntry(name: string, lock: LockFile): LockedEntry {
  const [first, ...others] = entriesNamed(name, lock);
  if (first !== undefined && others.length === 0) return first;
  const all = [first, ...others].flatMap((entry) => entry?.written ?? []);
  throw new McpvalsError("usage/invalid-option", `${JSON.stringify(name)} could be ${listNames(all)}`, {
    hint: "Write the one that is meant in full, and @VERSION behind it.",
  });
}

interface Verified {
  readonly entry: LockedEntry;
  readonly outcome: "verified" | "not cached" | "changed";
  readonly problems: readonly string[];
}

/**
 * `mcpvals extensions verify`; returns the exit code. 0 when everything cached is what the lock says, 1 when
 * something is not.
 */
async function verify(flags: ExtensionFlags): Promise<number> {
  const open = await openExtensions(flags);
  const verified: Verified[] = [];
  for (const entry of lockedEntries(open.lock)) verified.push(await verifyOne(entry, open));
  const count = (outcome: Verified["outcome"]): number =>
    verified.filter((each) => each.outcome === outcome).length;
  const counts = { verified: count("verified"), changed: count("changed"), notCached: count("not cached") };
  const json = {
    lock: open.shownLock,
    ...counts,
    extensions: verified.map(({ entry, outcome, problems }) => ({
      written: entry.written,
      version: entry.version,
      outcome,
      problems: [...problems],
    })),
  };
  const summary = `${counts.verified} verified, ${counts.changed} changed, ${counts.notCached} not cached`;
  const lines = verified.length === 0 ? [open.nothingLocked] : [...verifiedRows(verified), summary];
  writeAnswer({ json, lines }, flags);
  if (counts.changed > 0) return 1;
  return counts.verified === verified.length && verified.length > 0 ? 0 : 3;
}

async function verifyOne(entry: LockedEntry, { resolver, lock }: OpenExtensions): Promise<Verified> {
  const { written } = entry;
  const locked = lock.extensions[written];
  const problems = locked === undefined ? [] : await resolver.verify(written, locked);
  if (problems.length > 0) return { entry, outcome: "changed", problems };
  const cached = await resolver.cached();
  const isCached = cached.some((each) => isCacheOf(each, entry));
  return { entry, outcome: isCached ? "verified" : "not cached", problems };
}

function verifiedRows(verified: readonly Verified[]): string[] {
  const heads = columns(verified.map(({ entry, outcome }) => [entry.written, entry.version, outcome]));
  return verified.flatMap(({ problems }, index) => [
    heads[index] ?? "",
    ...problems.map((problem) => `  ${visibleText(problem)}`),
  ]);
}

interface PruneFlags extends ExtensionFlags {
  /** Milliseconds. */
  readonly olderThan?: number;
  readonly dryRun?: boolean;
}

const usualAgeMs = 30 * 86_400_000;

/**
 * `mcpvals extensions prune`; returns the exit code. removes cached versions that were not used for long,
 * never one that the lock names; those whose record is damaged always go, since they are of no use.
 */
async function prune(flags: PruneFlags): Promise<number> {
  const { resolver, lock } = await openExtensions(flags);
  const { olderThan = usualAgeMs, dryRun = false } = flags;
  const locked = lockedEntries(lock);
  const isLocked = (each: CachedVersion): boolean =>
    locked.some((entry) => entry.package === each.package && entry.version === each.version);
  const newest = Date.now() - olderThan;
  const cached = await resolver.cached();
  const isOld = (each: CachedVersion): boolean => each.usedAt.getTime() <= newest && !isLocked(each);
  const old = cached.filter((each) => each.isDamaged === true || isOld(each));
  if (!dryRun) for (const version of old) await resolver.remove(version);
  const bytes = old.reduce((sum, each) => sum + each.bytes, 0);
  const json = {
    dryRun,
    bytes,
    kept: cached.length - old.length,
    removed: old.map(({ package: name, version, platform, bytes: size }) => ({
      package: name,
      version,
      platform,
      bytes: size,
    })),
  };
  const rows = old.map((each) => [
    each.package,
    each.version,
    `for ${each.platform}`,
    formatBytes(each.bytes),
  ]);
  const verb = dryRun ? "would be removed" : "removed";
  const summary = `${countOf(old.length, "version")} ${verb}, ${formatBytes(bytes)}; ${json.kept} kept`;
  const lines = cached.length === 0 ? ["Nothing is cached."] : [...columns(rows), summary];
  writeAnswer({ json, lines }, flags);
  return 0;
}
