import { existsSync } from "node:fs";
import { relative, resolve } from "node:path";
import type { Command } from "commander";
import semver from "semver";
import { McpvalsError } from "../../base/error.ts";
import { listNames, suggestion } from "../../base/did-you-mean.ts";
import type { LockedExtension, LockFile } from "../../extensions/lock-file.ts";
import { parsePackageRef } from "../../model/package-ref.ts";
import type { JsonObject } from "../../base/json.ts";
import { countOf, quoteBar, visibleText } from "../../base/visible-text.ts";
import type { ContractReport, ContractVerdict } from "../../extensions/contract/run-contract.ts";
import type { CachedVersion } from "../../extensions/resolve/cache.ts";
import { readLock, writeLock } from "../../extensions/resolve/files.ts";
import {
  createResolver,
  extensionPlaces,
  type ExtensionResolver,
} from "../../extensions/resolve/resolver.ts";
import { environment } from "../../formats/environment.ts";
import { baseEnvironment } from "../../process/environment.ts";
import { displayWidth, padToWidth, wrapText, createStyle, type Tone } from "../../base/columns.ts";
import { age, duration, jsonObject, type SetExitCode, sha256 } from "../flags.ts";
import {
  abortOnInterrupt,
  stdoutOutput,
  workingFolder,
  writeError,
  writeJson,
  writeOut,
} from "../terminal.ts";

/** `mcpvals extensions`: the extensions that the lock of this folder names, and the cache. */
export function define(command: Command, setExitCode: SetExitCode): void {
  const write = (flags: { readonly json?: boolean }, { code = 0, json, lines }: Answer): void => {
    if (flags.json === true) writeJson(json, 2);
    else if (lines.length > 0) writeOut(lines.join("\n"));
    setExitCode(code);
  };
  const add = (name: string, description: string): Command =>
    command.command(name).description(description).option("--json", "print the output as JSON");
  const addCached = (name: string, description: string): Command =>
    add(name, description).option(
      "--cache-dir <dir>",
      "folder of downloaded extensions (default: ~/.mcpvals/extensions)",
    );
  const addFetching = (name: string, description: string): Command =>
    addCached(name, description).option("--releases-url <url>", "URL of the releases API, such as a mirror");
  addCached("list", "list locked and cached extensions, without network").action(
    async (flags: ExtensionFlags) => write(flags, await list(flags)),
  );
  addFetching("add", "download a package, verify its files and lock it")
    .argument("<package>", "github.com/ORG/REPO@VERSION, as in tasks")
    .option("--sha256 <hex>", "SHA-256 that the downloaded file must have", sha256)
    .action(async (name: string, flags: AddFlags) => write(flags, await addPackage(name, flags)));
  addFetching("update", "lock the newest versions that match the tasks")
    .argument("[names...]", "packages, or the last parts of their names (default: all)")
    .action(async (names: readonly string[], flags: ExtensionFlags) =>
      write(flags, await update(names, flags)),
    );
  addFetching("pin", "lock one version, regardless of the tasks; without network if it is cached")
    .argument("<name@version>", "a package of the lock, or the last part of its name")
    .action(async (target: string, flags: ExtensionFlags) => write(flags, await pin(target, flags)));
  addCached(
    "verify",
    "compare cached files with the lock; exit 1 if they differ, 3 if some are missing",
  ).action(async (flags: ExtensionFlags) => write(flags, await verify(flags)));
  addCached("prune", "remove old cached versions that are not in this lock")
    .option("--older-than <age>", "minimum time since last use, such as 12h or 30d (default: 30d)", age)
    .option("--dry-run", "only list what would be removed")
    .action(async (flags: PruneFlags) => write(flags, await prune(flags)));
  add("test", "test whether a program is a valid extension; exit 1 if not")
    .argument("<program>", "the program, a folder with an extension.yaml, or mcpvals:NAME")
    .option("--config <json>", "settings of the extension, a JSON object", jsonObject)
    .option("--timeout <duration>", "time limit of one answer (default: 10s)", duration)
    .action(async (program: string, flags: ContractFlags) =>
      write(flags, await testExtension(program, flags)),
    );
}

interface ExtensionFlags {
  readonly json?: boolean;
  readonly cacheDir?: string;
  readonly releasesUrl?: string;
}

/** An entry of the lock with the package as it is written in files. */
interface LockedEntry extends LockedExtension {
  readonly written: string;
}

/** The cache, and the lock that is valid in the working folder. */
interface OpenExtensions {
  readonly cwd: string;
  readonly resolver: ExtensionResolver;
  readonly lock: LockFile;
  /** The entries of the lock, in its order. */
  readonly entries: readonly LockedEntry[];
  readonly shownLock: string;
  readonly nothingLocked: string;
  /** Puts entries into the lock, by package as it is written. */
  readonly save: (entries: Readonly<Record<string, LockedExtension>>) => Promise<void>;
}

/** Opens the cache and reads the lock. Throws `extension/invalid-lock`. */
async function openExtensions({ cacheDir, releasesUrl }: ExtensionFlags): Promise<OpenExtensions> {
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
    resolver: createResolver({ ...places, signal, onProgress: writeError }),
    lock,
    entries: Object.entries(lock.extensions).map(([written, entry]) => ({ ...entry, written })),
    shownLock,
    nothingLocked: visibleText(`Nothing is locked: ${why}.`),
    save: (entries) => writeLock(path, { ...lock, extensions: { ...lock.extensions, ...entries } }),
  };
}

/**
 * The entries that a name means: the package as it is written, the package without its version, or the last part of that.
 * Throws `extension/not-locked` when there is none.
 */
function entriesNamed(name: string, { entries }: OpenExtensions): readonly LockedEntry[] {
  const named = entries.map((entry) => ({
    entry,
    last: entry.package.split(/[/:]/).at(-1) ?? entry.package,
  }));
  const found = [
    named.filter(({ entry }) => entry.written === name),
    named.filter(({ entry }) => entry.package === name),
    named.filter(({ last }) => last === name),
  ].find((some) => some.length > 0);
  if (found !== undefined) return found.map(({ entry }) => entry);
  const known = new Set(named.flatMap(({ entry, last }) => [last, entry.package]));
  const message = `no extension of the lock is named ${JSON.stringify(name)}`;
  throw new McpvalsError("extension/not-locked", message, {
    hint:
      entries.length === 0
        ? "Nothing is locked yet; mcpvals extensions add PACKAGE locks a first one."
        : suggestion(name, [...known], "extensions"),
  });
}

/** Whether something in the cache is what an entry names. */
function isCacheOf(cached: CachedVersion, entry: LockedEntry): boolean {
  const isSame = cached.package === entry.package && cached.version === entry.version;
  return isSame && Object.values(entry.files).some(({ hash }) => hash === cached.hash);
}

/** The answer of a command in both of its forms; lines are safe to print. */
interface Answer {
  /** The exit code; 0 unless given. */
  readonly code?: number;
  readonly json: unknown;
  readonly lines: readonly string[];
}

/** Rows as lines that are safe to print, their cells in columns. */
function columns(written: readonly (readonly string[])[]): string[] {
  const rows = written.map((row) => row.map((cell) => visibleText(cell)));
  const width = (index: number): number =>
    rows.reduce((widest, row) => Math.max(widest, displayWidth(row[index] ?? "")), 0);
  const widths = Array.from(rows[0] ?? [], (_, index) => width(index));
  return rows.map((row) =>
    row
      .map((cell, index) => padToWidth(cell, widths[index] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

/** A size for people: `512 B`, `3.4 kB`, `12.0 MB`. */
function formatBytes(bytes: number): string {
  const power = [1, 2, 3].findLast((each) => bytes >= 999.5 * 1000 ** (each - 1)) ?? 0;
  const unit = ["B", "kB", "MB", "GB"][power] ?? "";
  return `${power === 0 ? bytes : (bytes / 1000 ** power).toFixed(1)} ${unit}`;
}

function bytesOf(versions: readonly CachedVersion[]): number {
  return versions.reduce((sum, { bytes }) => sum + bytes, 0);
}

async function list(flags: ExtensionFlags): Promise<Answer> {
  const { resolver, entries, shownLock, nothingLocked } = await openExtensions(flags);
  const cached = await resolver.cached();
  const locked = entries.map((entry) => {
    const same = cached.filter((version) => version.package === entry.package);
    const newer = same.map(({ version }) => version).filter((version) => isNewer(version, entry.version));
    const [newest] = newer.toSorted((a, b) => semver.rcompare(a, b));
    return { entry, files: same.filter((each) => isCacheOf(each, entry)), newest };
  });
  const others = cached.filter((version) => !locked.some(({ files }) => files.includes(version)));
  const rows = locked.map(({ entry, files, newest }) => {
    const state = files.length === 0 ? "not cached" : `cached, ${formatBytes(bytesOf(files))}`;
    const facts = newest === undefined ? state : `${state}; ${newest} is cached too`;
    return [entry.written, entry.version, `for ${Object.keys(entry.files).join(", ")}`, facts];
  });
  const json = {
    lock: shownLock,
    extensions: locked.map(({ entry, files, newest }) => ({
      written: entry.written,
      package: entry.package,
      version: entry.version,
      platforms: Object.keys(entry.files),
      cached: files.map(cachedReport),
      newer: newest ?? null,
    })),
    others: others.map(cachedReport),
  };
  const lines = [
    ...(locked.length === 0 ? [nothingLocked] : [shownLock, ...indented(rows)]),
    ...(others.length === 0 ? [] : ["", "Cached besides", ...indented(others.map(otherRow))]),
  ];
  return { json, lines };
}

function indented(rows: readonly (readonly string[])[]): string[] {
  return columns(rows).map((line) => `  ${line}`);
}

function isNewer(version: string, than: string): boolean {
  const [a, b] = [semver.parse(version), semver.parse(than)];
  return a !== null && b !== null && semver.gt(a, b);
}

function cachedReport({ package: name, version, platform, bytes, usedAt, folder }: CachedVersion): object {
  return { package: name, version, platform, bytes, usedAt: usedAt.toISOString(), folder };
}

function otherRow({ package: name, version, platform, bytes, usedAt, isDamaged }: CachedVersion): string[] {
  const days = Math.floor((Date.now() - usedAt.getTime()) / 86_400_000);
  const used = days < 1 ? "used today" : `used ${countOf(days, "day")} ago`;
  const state = isDamaged === true ? "damaged; prune removes it" : `${formatBytes(bytes)}, ${used}`;
  return [name, version, `for ${platform}`, state];
}

interface AddFlags extends ExtensionFlags {
  readonly sha256?: string;
}

/**
 * `mcpvals extensions add`. Fetches a package, verifies its files, and locks it.
 * Throws McpvalsError of the codes `extension/…`.
 */
async function addPackage(written: string, flags: AddFlags): Promise<Answer> {
  const { cwd, resolver, lock, shownLock, save } = await openExtensions(flags);
  const before = Object.hasOwn(lock.extensions, written) ? lock.extensions[written] : undefined;
  const hash = flags.sha256 === undefined ? {} : { sha256: flags.sha256 };
  const how = { frozen: false, offline: false, ...hash };
  const { extension, locked } = await resolver.resolve({ package: written, dir: cwd }, before, how);
  if (locked === undefined) {
    const what = written.startsWith("mcpvals:")
      ? "comes with mcpvals"
      : written.startsWith("npm:")
        ? "is installed by npm"
        : "is a path";
    const message = `${written} ${what}, so that there is nothing to fetch`;
    const hint = "Tasks can use it as it is; only what is fetched is locked.";
    throw new McpvalsError("usage/invalid-option", message, { hint });
  }
  const isNew = JSON.stringify(locked) !== JSON.stringify(before);
  if (isNew) await save({ [written]: locked });
  const place = `${locked.version} in ${shownLock}`;
  const line = isNew
    ? `${written} is now locked at ${place}`
    : `${written} was locked at ${place} before; its files are as they should be`;
  const json = { lock: shownLock, written, ...locked, folder: extension.folder, added: isNew };
  return { json, lines: [visibleText(line)] };
}

/**
 * `mcpvals extensions update`. It locks the newest version that matches what is written.
 * When one of the packages fails, nothing is changed. Throws McpvalsError of the codes `extension/…`.
 */
async function update(names: readonly string[], flags: ExtensionFlags): Promise<Answer> {
  const open = await openExtensions(flags);
  const { resolver, lock, shownLock, nothingLocked, save } = open;
  const all = names.length === 0 ? open.entries : names.flatMap((name) => entriesNamed(name, open));
  const entries = new Map(all.map((entry) => [entry.written, entry]));
  const updates = await Promise.all(
    [...entries.values()].map(async ({ written, version: from }) => {
      const to = await resolver.newest(written);
      const locked = to === from ? undefined : await resolver.pin(written, to, lock.extensions[written]);
      return { written, from, locked };
    }),
  );
  const changed = updates.flatMap(({ written, locked }) => (locked === undefined ? [] : [[written, locked]]));
  if (changed.length > 0) await save(Object.fromEntries(changed) as Record<string, LockedExtension>);
  const json = updates.map(({ written, from, locked }) => ({ written, from, to: locked?.version ?? from }));
  const rows = updates.map(({ written, from, locked }) => [
    written,
    locked === undefined ? `${from} is the newest` : `${from} -> ${locked.version}`,
  ]);
  const lines = updates.length === 0 ? [nothingLocked] : columns(rows);
  return { json: { lock: shownLock, updates: json }, lines };
}

/**
 * `mcpvals extensions pin`. Locks one version of a package, whatever files say of the
 * version, without the network when it is cached. Throws McpvalsError of the codes `extension/…`.
 */
async function pin(target: string, flags: ExtensionFlags): Promise<Answer> {
  const [, name, version] = /^(.+)@([^@/]+)$/s.exec(target) ?? [];
  if (name === undefined || version === undefined) {
    throw new McpvalsError("usage/invalid-option", `${JSON.stringify(target)} names no version`, {
      hint: "Write it as NAME@VERSION; mcpvals extensions list shows the names.",
    });
  }
  const open = await openExtensions(flags);
  const { resolver, lock, shownLock, save } = open;
  const entries = entriesNamed(name, open);
  const [entry] = entries;
  if (entry === undefined || entries.length > 1) {
    const message = `${JSON.stringify(name)} could be ${listNames(entries.map((each) => each.written))}`;
    throw new McpvalsError("usage/invalid-option", message, {
      hint: "Write the one that is meant in full, and @VERSION behind it.",
    });
  }
  const { written, version: from } = entry;
  const locked = await resolver.pin(written, version, lock.extensions[written]);
  await save({ [written]: locked });
  const json = { lock: shownLock, written, from, to: locked.version };
  const how = from === locked.version ? `stays at ${from}` : `${from} -> ${locked.version}`;
  return { json, lines: [visibleText(`${written}  ${how}  in ${shownLock}`)] };
}

/**
 * `mcpvals extensions verify`; exit code 0 when everything locked is cached as the lock says, 1 when
 * something differs, 3 when something is not cached or nothing is locked.
 */
async function verify(flags: ExtensionFlags): Promise<Answer> {
  const { resolver, lock, entries, shownLock, nothingLocked } = await openExtensions(flags);
  const extensions: { written: string; version: string; outcome: string; problems: string[] }[] = [];
  for (const entry of entries) {
    const { written, version } = entry;
    const locked = lock.extensions[written];
    const problems = locked === undefined ? [] : await resolver.verify(written, locked);
    const isCached = (await resolver.cached()).some((each) => isCacheOf(each, entry));
    const outcome = problems.length > 0 ? "changed" : isCached ? "verified" : "not cached";
    extensions.push({ written, version, outcome, problems: [...problems] });
  }
  const count = (wanted: string): number => extensions.filter(({ outcome }) => outcome === wanted).length;
  const counts = { verified: count("verified"), changed: count("changed"), notCached: count("not cached") };
  const heads = columns(extensions.map(({ written, version, outcome }) => [written, version, outcome]));
  const lines = extensions.flatMap(({ problems }, index) => [
    heads[index] ?? "",
    ...problems.map((problem) => `  ${visibleText(problem)}`),
  ]);
  const summary = `${counts.verified} verified, ${counts.changed} changed, ${counts.notCached} not cached`;
  const json = { lock: shownLock, ...counts, extensions };
  const isVerified = counts.verified === entries.length && entries.length > 0;
  const code = counts.changed > 0 ? 1 : isVerified ? 0 : 3;
  return { code, json, lines: entries.length === 0 ? [nothingLocked] : [...lines, summary] };
}

interface PruneFlags extends ExtensionFlags {
  /** Milliseconds. */
  readonly olderThan?: number;
  readonly dryRun?: boolean;
}

const defaultAgeMs = 30 * 86_400_000;

/**
 * `mcpvals extensions prune`. Removes cached versions that were not used for long,
 * never one that the lock names; those whose record is damaged always go, since they are of no use.
 */
async function prune(flags: PruneFlags): Promise<Answer> {
  const { resolver, entries } = await openExtensions(flags);
  const { olderThan = defaultAgeMs, dryRun = false } = flags;
  const newest = Date.now() - olderThan;
  const cached = await resolver.cached();
  const old = cached.filter(({ package: name, version, usedAt, isDamaged = false }) => {
    const isLocked = entries.some((entry) => entry.package === name && entry.version === version);
    return isDamaged || (usedAt.getTime() <= newest && !isLocked);
  });
  if (!dryRun) for (const version of old) await resolver.remove(version);
  const removed = old.map(({ package: name, version, platform, bytes }) => {
    return { package: name, version, platform, bytes };
  });
  const json = { dryRun, bytes: bytesOf(old), kept: cached.length - old.length, removed };
  const rows = removed.map((each) => [
    each.package,
    each.version,
    `for ${each.platform}`,
    formatBytes(each.bytes),
  ]);
  const verb = dryRun ? "would be removed" : "removed";
  const summary = `${countOf(old.length, "version")} ${verb}, ${formatBytes(json.bytes)}; ${json.kept} kept`;
  const lines = cached.length === 0 ? ["Nothing is cached."] : [...columns(rows), summary];
  return { json, lines };
}

/** The flags of `extensions test` as commander gives them. */
interface ContractFlags {
  readonly json?: boolean;
  readonly config?: JsonObject;
  /** Milliseconds. */
  readonly timeout?: number;
}

/**
 * `mcpvals extensions test`; exit code 0 when the program does all that an extension must, else
 * 1. Throws McpvalsError `extension/not-found` and `extension/invalid-manifest`.
 */
async function testExtension(program: string, flags: ContractFlags): Promise<Answer> {
  using interrupt = abortOnInterrupt();
  const { contractHolds, runContract } = await import("../../extensions/contract/run-contract.ts");
  const { launchOf } = await import("../../extensions/host/extension-process.ts");
  const { cwd, resolver } = await openExtensions({});
  const written = parsePackageRef(program).ok ? program : `./${program}`;
  const how = { frozen: false, offline: true };
  const { extension } = await resolver.resolve({ package: written, dir: cwd }, undefined, how);
  const report = await runContract({
    ...launchOf(extension),
    cwd,
    env: baseEnvironment(environment()),
    signal: interrupt.signal,
    ...(extension.manifest === undefined ? {} : { manifest: extension.manifest }),
    ...(flags.config === undefined ? {} : { config: flags.config }),
    ...(flags.timeout === undefined ? {} : { timeoutMs: flags.timeout }),
  });
  interrupt.signal.throwIfAborted();
  const json = { ...report, counts: countsOf(report) };
  return { code: contractHolds(report) ? 0 : 1, json, lines: reportLines(program, report) };
}

type Outcome = ContractVerdict["outcome"];

const tones: Readonly<Record<Outcome, Tone>> = { pass: "good", fail: "bad", warn: "warn", skip: "dim" };

function countsOf({ verdicts }: ContractReport): Readonly<Record<Outcome, number>> {
  const count = (outcome: Outcome): number =>
    verdicts.filter((verdict) => verdict.outcome === outcome).length;
  return { pass: count("pass"), fail: count("fail"), warn: count("warn"), skip: count("skip") };
}

function reportLines(program: string, report: ContractReport): string[] {
  const { colors, isTerminal, columns: width } = stdoutOutput();
  const style = createStyle(colors);
  const shown = withoutRepeats(report.verdicts);
  const names = columns(shown.map(({ name }) => [name, "|"])).map((row) => row.slice(0, -1));
  const painted = shown.flatMap(({ outcome, message }, index) => {
    const head = `  ${outcome}  ${names[index] ?? ""}`;
    const [first = "", ...others] = message.split("\n").map((line) => visibleText(line));
    const room = isTerminal ? width() - head.length : Infinity;
    const [line = "", ...rest] = wrapText(first, room);
    return [
      `  ${style[tones[outcome]](outcome)}${head.slice(2 + outcome.length)}${line}`,
      ...rest.map((text) => " ".repeat(head.length) + text),
      ...(outcome === "pass" ? [] : others).map((text) => `        ${quoteBar}${text}`),
    ];
  });
  const { pass, fail, warn, skip } = countsOf(report);
  const others = Object.entries({ failed: fail, "with a warning": warn, skipped: skip }).filter(
    ([, count]) => count > 0,
  );
  const summary = [`${pass} passed`, ...others.map(([what, count]) => `${count} ${what}`)].join(", ");
  return [visibleText(`${program}  ${report.protocols.join(", ")}`), ...painted, summary];
}

/** What was skipped for one reason, in one line. */
function withoutRepeats(verdicts: readonly ContractVerdict[]): readonly ContractVerdict[] {
  const shown = new Set<string>();
  return verdicts.flatMap((verdict) => {
    const { outcome, message } = verdict;
    const same = verdicts.filter((each) => each.outcome === outcome && each.message === message);
    if (outcome !== "skip" || same.length < 3) return [verdict];
    if (shown.has(message)) return [];
    shown.add(message);
    return [{ ...verdict, name: `${same.length} more` }];
  });
}
