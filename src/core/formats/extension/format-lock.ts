import { stringify } from "yaml";
import type { LockedExtension, LockFile } from "./lock-file.ts";

/** Writes a lock file as YAML, sorted, so that the same lock is always the same text. */
export function formatLock({ version, extensions }: LockFile): string {
  const document = { version, extensions: sorted(extensions, entry) };
  return `${heading}\n${stringify(document, { lineWidth: 0, aliasDuplicateObjects: false })}`;
}

const heading = `# Which version of each extension is used, and what its files must be. Written by mcpvals; commit it.`;

function entry({ package: from, version, checksums, files }: LockedExtension): object {
  const named = sorted(files, ({ name, hash, tree }) => ({ name, hash, tree }));
  return { package: from, version, ...(checksums === undefined ? {} : { checksums }), files: named };
}

function sorted<T>(members: Readonly<Record<string, T>>, write: (member: T) => object): object {
  const entries = Object.entries(members).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, member]) => [key, write(member)]));
}
