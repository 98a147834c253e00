import { existsSync } from "node:fs";
import { relative, resolve } from "node:path";
import { environment } from "../config/environment.ts";
import type { LockedExtension, LockFile } from "../core/formats/extension/lock-file.ts";
import { visibleText } from "../core/text/visible-text.ts";
import { extensionPlaces } from "../extensions/prepare/extension-places.ts";
import { createResolver } from "../extensions/resolve/create-resolver.ts";
import type { ExtensionResolver } from "../extensions/resolve/extension-resolver.ts";
import { readLock, writeLock } from "../extensions/resolve/lock.ts";
import { writeError } from "./terminal.ts";
import { workingFolder } from "./working-folder.ts";

/** The flags that all commands about extensions have. */
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
