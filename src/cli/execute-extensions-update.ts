import type { LockedExtension } from "../core/formats/extension/lock-file.ts";
import { entriesNamed, type LockedEntry, lockedEntries } from "./locked-entries.ts";
import { type ExtensionFlags, type OpenExtensions, openExtensions } from "./open-extensions.ts";
import { columns, writeAnswer } from "./write-answer.ts";

interface Update {
  readonly entry: LockedEntry;
  /** Undefined when it is the newest. */
  readonly locked?: LockedExtension;
}

/**
 * Carries out `mcpvals extensions update` and gives the exit code: locks the newest version that matches what is written.
 * When one of the packages fails, nothing is changed. Throws McpvalsError of the codes `extension/…`.
 */
export async function executeExtensionsUpdate(
  names: readonly string[],
  flags: ExtensionFlags,
): Promise<number> {
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
  const lines = updates.length === 0 ? [nothingLocked] : rows(updates);
  writeAnswer({ json: { lock: shownLock, updates: json }, lines }, flags);
  return 0;
}

async function updateOne(entry: LockedEntry, { resolver, lock }: OpenExtensions): Promise<Update> {
  const version = await resolver.newest(entry.written);
  if (version === entry.version) return { entry };
  return { entry, locked: await resolver.pin(entry.written, version, lock.extensions[entry.written]) };
}

function rows(updates: readonly Update[]): string[] {
  return columns(
    updates.map(({ entry, locked }) => [
      entry.written,
      locked === undefined ? `${entry.version} is the newest` : `${entry.version} -> ${locked.version}`,
    ]),
  );
}
