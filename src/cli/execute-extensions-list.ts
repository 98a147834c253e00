import semver from "semver";
import { countOf } from "../reporters/format/numbers.ts";
import type { CachedVersion } from "../extensions/resolve/extension-resolver.ts";
import { isCacheOf, type LockedEntry, lockedEntries } from "./locked-entries.ts";
import { type ExtensionFlags, openExtensions } from "./open-extensions.ts";
import { columns, formatBytes, writeAnswer } from "./write-answer.ts";

/** Carries out `mcpvals extensions list` and gives the exit code. */
export async function executeExtensionsList(flags: ExtensionFlags): Promise<number> {
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
