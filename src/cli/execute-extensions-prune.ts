import type { CachedVersion } from "../extensions/resolve/extension-resolver.ts";
import { countOf } from "../reporters/format/numbers.ts";
import { lockedEntries } from "./locked-entries.ts";
import { type ExtensionFlags, openExtensions } from "./open-extensions.ts";
import { columns, formatBytes, writeAnswer } from "./write-answer.ts";

export interface PruneFlags extends ExtensionFlags {
  /** Milliseconds. */
  readonly olderThan?: number;
  readonly dryRun?: boolean;
}

const usualAgeMs = 30 * 86_400_000;

/**
 * Carries out `mcpvals extensions prune` and gives the exit code: removes cached versions that were not used for long,
 * never one that the lock names; those whose record is damaged always go, since they are of no use.
 */
export async function executeExtensionsPrune(flags: PruneFlags): Promise<number> {
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
