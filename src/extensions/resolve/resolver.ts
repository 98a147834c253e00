import { homedir } from "node:os";
import { join, posix } from "node:path";
import picomatch from "picomatch";
import { McpvalsError } from "../../base/error.ts";
import type { LockedExtension, LockedFile } from "../lock-file.ts";
import { type PackageRef, parsePackageRef } from "../../model/package-ref.ts";
import { withoutUndefined } from "../../base/json.ts";
import type { ExtensionSettings } from "../../model/extension.ts";
import { releasePlatform, runningPlatform } from "../../process/environment.ts";
import {
  type CachedVersion,
  type CacheEntry,
  changedFiles,
  ExtensionCache,
  filesOf,
  hashEntry,
  type PackageSource,
  type Tree,
} from "./cache.ts";
import { givenHash, integrityError, lockMismatch } from "./files.ts";
import {
  platformName,
  readPackage,
  type ResolvedExtension,
  resolveBundled,
  resolveInstalled,
  resolvePath,
  type ReleaseRef,
} from "./program.ts";
import { isPartialVersion, newestTag, releaseSource, tagsOf } from "./releases.ts";

export interface ExtensionResolver {
  /**
   * Uses the version of `locked`, else the newest one that matches; fetches it when it is not cached; verifies every file. The
   * result's `locked` is the new entry of the lock, which only releases have. Throws McpvalsError of the codes `extension/…`,
   * and the signal's reason.
   */
  resolve(
    spec: PackageUse,
    locked: LockedExtension | undefined,
    how: ResolveMode,
  ): Promise<{ readonly extension: ResolvedExtension; readonly locked?: LockedExtension }>;
  /** The newest version of the source that matches the package as written. Throws as `resolve` does. */
  newest(packageText: string): Promise<string>;
  /**
   * The entry of the lock for a version, without network when it is cached. Files of `previous` for other platforms are kept
   * when it has the same version. Throws as `resolve` does.
   */
  pin(packageText: string, version: string, previous: LockedExtension | undefined): Promise<LockedExtension>;
  /** Verifies the cached files of an entry of the lock, for any platform; gives problems as sentences. */
  verify(packageText: string, locked: LockedExtension): Promise<readonly string[]>;
  /** Everything in the cache. */
  cached(): Promise<readonly CachedVersion[]>;
  remove(version: CachedVersion): Promise<void>;
}

/** A package as written, and the absolute folder that a relative path starts from. */
export interface PackageUse {
  readonly package: string;
  readonly dir: string;
}

export interface ResolveMode {
  /** Only what the lock has. */
  readonly frozen: boolean;
  /** Only what is cached. */
  readonly offline: boolean;
  /** SHA-256 of the release's file, in hex, as the user has given it. */
  readonly sha256?: string;
}

/** Where extensions come from and where they are kept. */
export interface ExtensionPlaces {
  /** Absolute folder of the cache; made when it is needed. */
  readonly cacheDir: string;
  /** Base URL of the API that lists releases. Default: GitHub's. */
  readonly releasesUrl?: string;
  /** Globs of packages without their version, one of which must match. Default: any source. */
  readonly allowedSources?: readonly string[];
  /** The user's home folder, which `~` stands for. */
  readonly home: string;
  /** The environment of mcpvals. */
  readonly env: Readonly<Record<string, string>>;
}

export interface ResolverOptions extends ExtensionPlaces {
  readonly signal: AbortSignal;
  /** Called with one line for each download. */
  readonly onProgress?: (message: string) => void;
}

/**
 * Settings of a resolver: from options, else from the eval, else from the variables MCPVALS_EXTENSIONS_CACHE, an absolute
 * path, and MCPVALS_RELEASES_URL, else the defaults. An empty variable is as good as none.
 */
export function extensionPlaces({
  options = {},
  settings = {},
  env,
}: {
  readonly options?: { readonly cacheDir?: string | undefined; readonly releasesUrl?: string | undefined };
  readonly settings?: ExtensionSettings | undefined;
  readonly env: Readonly<Record<string, string>>;
}): ExtensionPlaces {
  const home = homedir();
  const cacheDir = options.cacheDir ?? settings.cacheDir ?? (env["MCPVALS_EXTENSIONS_CACHE"] || undefined);
  const releasesUrl =
    options.releasesUrl ?? settings.releasesUrl ?? (env["MCPVALS_RELEASES_URL"] || undefined);
  return {
    cacheDir: cacheDir ?? join(home, ".mcpvals", "extensions"),
    ...withoutUndefined({ releasesUrl, allowedSources: settings.allowedSources }),
    home,
    env,
  };
}

/** Creates a resolver. Nothing is read or fetched yet. */
export function createResolver(options: ResolverOptions): ExtensionResolver {
  const { allowedSources, signal, home } = options;
  const cache = new ExtensionCache(options.cacheDir, signal);
  const open = (text: string): PackageRef => {
    signal.throwIfAborted();
    return openPackage(text, allowedSources);
  };
  const versioned = (text: string) => {
    const ref = open(text);
    if (ref.kind === "release") return versionedPackage(text, ref, cache, options);
    throw new McpvalsError("extension/invalid-package", `${text} has no versions to choose from.`, {
      hint: "Only github.com/ORG/REPO has versions. npm installs those of npm:NAME.",
    });
  };
  return {
    async resolve({ package: written, dir }, locked, how) {
      const ref = open(written);
      if (ref.kind === "path") return { extension: await resolvePath(ref, { written, dir, home }) };
      if (ref.kind === "npm") return { extension: await resolveInstalled(ref, { written, dir }) };
      if (ref.kind === "bundled") return { extension: await resolveBundled(ref) };
      return versioned(written).resolve(locked, how);
    },
    newest: async (text) => versioned(text).newest(),
    pin: async (text, version, previous) => versioned(text).pin(version, previous),
    verify: async (text, locked) => versioned(text).verify(locked),
    cached: () => cache.list(),
    remove: (version) => cache.remove(version),
  };
}

/** Parses a package. Throws McpvalsError `extension/invalid-package`, and as `checkSource`. */
export function openPackage(text: string, allowed: readonly string[] | undefined): PackageRef {
  const parsed = parsePackageRef(text);
  if (!parsed.ok) throw new McpvalsError("extension/invalid-package", parsed.message, { hint: parsed.hint });
  checkSource(parsed.ref, allowed);
  return parsed.ref;
}

/**
 * Throws McpvalsError `extension/source-not-allowed` when no glob matches the name of the package. Paths are compared as they
 * are written, but normalized. Without globs everything is allowed.
 */
export function checkSource(ref: PackageRef, allowed: readonly string[] | undefined): void {
  if (allowed === undefined) return;
  const name = ref.kind === "path" ? plainPath(ref.name) : ref.name;
  if (allowed.some((glob) => glob === name || matches(name, glob))) return;
  throw new McpvalsError(
    "extension/source-not-allowed",
    `the extension ${ref.name} comes from a source that is not allowed. Nothing of it was fetched or run.`,
    { hint: allowed.length === 0 ? "allowedSources is empty." : `allowedSources has ${allowed.join(", ")}.` },
  );
}

/** A glob with `./` matches only paths with `./`, which picomatch would ignore. */
function matches(name: string, glob: string): boolean {
  const [inside, wanted] = [name.startsWith("./"), glob.startsWith("./")];
  if (wanted && !inside) return false;
  const test = picomatch(wanted ? glob.slice(2) : glob, { dot: true, nonegate: true, windows: false });
  return test(inside ? name.slice(2) : name);
}

/** `./a/../../b` is not in `./a`, and `./a\b` is only on Windows. */
function plainPath(path: string): string {
  const slashes = runningPlatform() === "win32" ? path.replaceAll("\\", "/") : path;
  const plain = posix.normalize(slashes);
  return slashes.startsWith("./") && !plain.startsWith("../") ? `./${plain}` : plain;
}

/** A release: resolves it from the lock, the cache and its source to verified files. */
function versionedPackage(written: string, ref: ReleaseRef, cache: ExtensionCache, options: ResolverOptions) {
  const platform = platformName(releasePlatform());
  let source: PackageSource | undefined;

  async function resolve(
    locked: LockedExtension | undefined,
    how: ResolveMode,
  ): Promise<{ readonly extension: ResolvedExtension; readonly locked: LockedExtension }> {
    const file = locked && fileOf(locked);
    const entry = locked ? await lockedEntry(locked, file, how) : await unlockedEntry(how);
    const { record, folder } = entry;
    const given = how.sha256 === undefined ? record.hash : givenHash(how.sha256);
    if (given !== record.hash)
      throw integrityError({
        file: `${record.name} of ${record.package} ${record.version}`,
        expected: `${given}, as given`,
        found: record.hash,
        hint: `Compare both with what the authors publish elsewhere. It is in ${folder}.`,
      });
    let tree = await checked(entry, file?.tree);
    const recheck = async (): Promise<void> => {
      if (!tree.isUntouched()) tree = await checked(entry, file?.tree);
    };
    const kept = locked !== undefined && file !== undefined ? locked : lockOf(entry, locked);
    const { program, manifest } = await read(entry, tree, file?.name ?? record.name, kept.version);
    await cache.touch(entry);
    const place = { folder: filesOf(entry), program: join(filesOf(entry), program) };
    const own = { package: written, ref: ref, version: kept.version, hash: tree.hash };
    return { extension: { ...own, ...place, ...withoutUndefined({ manifest }), recheck }, locked: kept };
  }

  async function pin(version: string, previous: LockedExtension | undefined): Promise<LockedExtension> {
    const tags = tagsOf(version);
    const own = previous !== undefined && tags.includes(previous.version) ? fileOf(previous) : undefined;
    const same = (await usable()).filter(({ record }) => tags.includes(record.version));
    const cached = same.find(({ record }) => record.hash === own?.hash) ?? same[0];
    const entry = cached ?? (await fetched(version));
    await checked(entry, entry.record.hash === own?.hash ? own.tree : undefined);
    return lockOf(entry, previous);
  }

  async function verify({ version, files }: LockedExtension): Promise<readonly string[]> {
    const problems: string[] = [];
    for (const entry of await cache.entries(ref.name)) {
      const file = Object.values(files).find(({ hash }) => hash === entry.record.hash);
      if (entry.record.version !== version || file === undefined) continue;
      try {
        await checked(entry, file.tree);
      } catch (error) {
        options.signal.throwIfAborted();
        if (!(error instanceof McpvalsError)) throw error;
        problems.push(error.message);
      }
    }
    return problems;
  }

  function fileOf({ files }: LockedExtension): LockedFile | undefined {
    return files[platform] ?? files["any"];
  }

  /** The program must be one of the verified files, whatever the lock or a manifest names. */
  async function read(entry: CacheEntry, { files }: Tree, name: string, version: string) {
    const shown = `${ref.name} ${version}`;
    const folder = filesOf(entry);
    const found = await readPackage(ref, { name, folder, files, shown });
    if (files.some(({ path }) => path === found.program)) return found;
    throw new McpvalsError(
      "extension/integrity",
      `the program of ${shown}, ${JSON.stringify(found.program)}, is not one of its files in ${folder}. Nothing of it was run.`,
      { hint: "Its manifest or its entry in mcp-eval.lock names another file; find out who wrote that." },
    );
  }

  async function lockedEntry(
    locked: LockedExtension,
    file: LockedFile | undefined,
    how: ResolveMode,
  ): Promise<CacheEntry> {
    const { name } = ref;
    const { package: lockedName, version, checksums } = locked;
    if (lockedName !== name) {
      const message = `the lock's entry for ${written} is of another package, ${lockedName}.`;
      throw new McpvalsError("extension/invalid-lock", message);
    }
    const known = file && (await cache.find(name, version, file.hash));
    if (known !== undefined) return known;
    if (how.frozen && file === undefined && checksums === undefined)
      throw notLocked(`the lock has ${written}, but not for ${platform}`);
    if (how.offline) throw notCached(`${name} ${version}`);
    return fetched(version, locked, how.sha256);
  }

  async function unlockedEntry(how: ResolveMode): Promise<CacheEntry> {
    if (how.frozen) throw notLocked(`${written} is not in the lock`);
    if (!how.offline) return fetched(await asked().newest(), undefined, how.sha256);
    const entries = await usable();
    const version = newestOf(
      entries.map(({ record }) => record.version),
      ref,
    );
    const entry = entries.find(({ record }) => record.version === version);
    if (entry === undefined) throw notCached(written);
    return entry;
  }

  /**
   * Fetches what the source offers. A cached version does not replace it: without a lock nothing vouches for the cache, whose
   * records could have been changed with the files.
   */
  async function fetched(version: string, locked?: LockedExtension, sha256?: string): Promise<CacheEntry> {
    const { name } = ref;
    const offer = await asked().offer(version, locked, sha256);
    // A file has one hash, whatever platform it was locked on.
    const file = Object.values(locked?.files ?? {}).find((each) => each.name === offer.name);
    if (file !== undefined && file.hash !== offer.hash)
      throw lockMismatch(`${offer.name} of ${name} ${offer.version}`, file.hash, offer.hash);
    if (locked !== undefined && locked.version !== offer.version)
      throw lockMismatch(`the version of ${name}`, locked.version, offer.version);
    const entry = await cache.add(name, offer);
    // The checksums can have changed around a file that stayed the same.
    const { checksums: _, ...record } = entry.record;
    return { ...entry, record: { ...record, ...withoutUndefined({ checksums: offer.checksums }) } };
  }

  /** The source, which remembers its answers. */
  function asked(): PackageSource {
    const context = { ...options, onProgress: options.onProgress ?? (() => undefined) };
    source ??= releaseSource(ref, context);
    return source;
  }

  /** Reads all files, and compares them with the lock, else with the record of the cache. */
  async function checked(entry: CacheEntry, locked: string | undefined): Promise<Tree> {
    const { record, folder } = entry;
    const tree = await hashEntry(entry, options.signal);
    if (tree.hash === (locked ?? record.tree)) return tree;
    const changes = changedFiles(record, tree);
    const file = `what is cached of ${record.package} ${record.version} in ${filesOf(entry)}`;
    if (changes === undefined && locked !== undefined) throw lockMismatch(file, locked, tree.hash);
    throw integrityError({
      file,
      expected: locked === undefined ? record.tree : `${locked}, as locked`,
      found: changes === undefined ? tree.hash : `${tree.hash} (${changes})`,
      hint: `Somebody changed it after it was fetched. Find out who; then remove ${folder}, and it is fetched again.`,
    });
  }

  /** Cached entries for this platform, the last used first. */
  async function usable(): Promise<readonly CacheEntry[]> {
    const entries = await cache.entries(ref.name);
    return entries.filter(({ record }) => record.platform === platform || record.platform === "any");
  }

  function notCached(what: string): McpvalsError {
    const message = `${what} is not in the cache, and nothing may be fetched (offline).`;
    return new McpvalsError("extension/unreachable", message, {
      hint: `Fetch it once with the network: npx mcpvals extensions add ${written}.`,
    });
  }

  return { resolve, newest: () => asked().newest(), pin, verify };
}

function notLocked(message: string): McpvalsError {
  return new McpvalsError("extension/not-locked", `${message}, and nothing else may be used (frozen).`);
}

/** The entry of the lock. Files of the same version for other platforms stay. */
function lockOf({ record }: CacheEntry, previous: LockedExtension | undefined): LockedExtension {
  const { package: name, version, platform, checksums, hash, tree } = record;
  const isSame = previous?.version === version && previous.checksums === checksums;
  return {
    package: name,
    version,
    ...withoutUndefined({ checksums }),
    files: { ...(isSame ? previous.files : {}), [platform]: { name: record.name, hash, tree } },
  };
}

/** The newest of some versions that matches the package as written. */
function newestOf(versions: readonly string[], { version }: ReleaseRef): string | undefined {
  const wanted = version === "latest" ? undefined : version;
  if (wanted !== undefined && !isPartialVersion(wanted))
    return versions.find((each) => tagsOf(wanted).includes(each));
  return newestTag(versions, wanted) ?? versions[0];
}
