import { visibleText } from "../core/text/visible-text.ts";
import { isCacheOf, type LockedEntry, lockedEntries } from "./locked-entries.ts";
import { type ExtensionFlags, type OpenExtensions, openExtensions } from "./open-extensions.ts";
import { columns, writeAnswer } from "./write-answer.ts";

interface Verified {
  readonly entry: LockedEntry;
  readonly outcome: "verified" | "not cached" | "changed";
  readonly problems: readonly string[];
}

/**
 * Carries out `mcpvals extensions verify` and gives the exit code: 0 when everything cached is what the lock says, 1 when
 * something is not.
 */
export async function executeExtensionsVerify(flags: ExtensionFlags): Promise<number> {
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
  const lines = verified.length === 0 ? [open.nothingLocked] : [...rows(verified), summary];
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

function rows(verified: readonly Verified[]): string[] {
  const heads = columns(verified.map(({ entry, outcome }) => [entry.written, entry.version, outcome]));
  return verified.flatMap(({ problems }, index) => [
    heads[index] ?? "",
    ...problems.map((problem) => `  ${visibleText(problem)}`),
  ]);
}
