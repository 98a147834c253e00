import { McpvalsError } from "../core/errors/error.ts";
import type { LockedExtension, LockFile } from "../core/formats/extension/lock-file.ts";
import { suggestion } from "../core/formats/did-you-mean.ts";
import type { CachedVersion } from "../extensions/resolve/extension-resolver.ts";

/** An entry of the lock with the package as it is written in files. */
export interface LockedEntry extends LockedExtension {
  readonly written: string;
}

/** All entries, in the order of the lock. */
export function lockedEntries({ extensions }: LockFile): readonly LockedEntry[] {
  return Object.entries(extensions).map(([written, entry]) => ({ ...entry, written }));
}

/**
 * The entries that a name means: the package as it is written, the package without its version, or the last part of that.
 * Throws `extension/not-locked` when there is none.
 */
export function entriesNamed(name: string, lock: LockFile): readonly LockedEntry[] {
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
export function isCacheOf(cached: CachedVersion, entry: LockedEntry): boolean {
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
