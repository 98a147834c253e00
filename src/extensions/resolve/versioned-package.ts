import { join } from "node:path";
import { maxSatisfying, validRange } from "semver";
import { McpvalsError } from "../../core/errors/error.ts";
import type { LockedExtension, LockedFile } from "../../core/formats/extension/lock-file.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";
import { releasePlatform } from "../../process/environment.ts";
import {
  type CacheEntry,
  changedFiles,
  type ExtensionCache,
  filesOf,
  hashEntry,
  type Tree,
  type TreeFile,
} from "./cache.ts";
import { platformName, type ProgramWithManifest } from "./program.ts";
import { integrityError } from "./files.ts";
import type {
  Offer,
  OfferExpectations,
  ResolvedExtension,
  ResolveMode,
  ResolverOptions,
  SourceContext,
  VersionedSource,
} from "./extension-resolver.ts";
import { baseAddress } from "./fetch-source.ts";
import { npmSource, readNpmPackage } from "./npm-source.ts";
import {
  givenHash,
  isPartialVersion,
  lockMismatch,
  newestTag,
  readRelease,
  ReleaseSource,
  tagsOf,
} from "./release-source.ts";

export interface VersionedParts {
  readonly ref: VersionedRef;
  /** Called when the source is needed. */
  readonly source: () => VersionedSource;
  readonly cache: ExtensionCache;
  readonly signal: AbortSignal;
}

/** A package with versions: resolves it from the lock, the cache and its source to verified files. */
export class VersionedPackage {
  readonly #written: string;
  readonly #parts: VersionedParts;
  readonly #platform = platformName(releasePlatform());
  #source: VersionedSource | undefined;

  constructor(written: string, parts: VersionedParts) {
    this.#written = written;
    this.#parts = parts;
  }

  async resolve(
    locked: LockedExtension | undefined,
    how: ResolveMode,
  ): Promise<{ readonly extension: ResolvedExtension; readonly locked: LockedExtension }> {
    const entry = locked === undefined ? await this.#unlocked(how) : await this.#locked(locked, how);
    checkGiven(entry, how.sha256);
    const file = locked === undefined ? undefined : this.#fileOf(locked);
    const tree = await this.#checked(entry, file?.tree);
    const keep = locked !== undefined && file !== undefined ? locked : lockOf(entry, locked);
    const extension = await this.#read(entry, tree, {
      name: file?.name ?? entry.record.name,
      version: keep.version,
    });
    await this.#parts.cache.touch(entry);
    let last = tree;
    const recheck = async (): Promise<void> => {
      if (!last.isUntouched()) last = await this.#checked(entry, file?.tree);
    };
    return { extension: { ...extension, recheck }, locked: keep };
  }

  async newest(): Promise<string> {
    return this.#asked().newest();
  }

  async pin(version: string, previous: LockedExtension | undefined): Promise<LockedExtension> {
    const entries = await this.#usable();
    const own =
      previous !== undefined && tagsOf(version).includes(previous.version)
        ? this.#fileOf(previous)
        : undefined;
    const same = entries.filter(({ record }) => tagsOf(version).includes(record.version));
    const cached = same.find(({ record }) => record.hash === own?.hash) ?? same[0];
    const entry = cached ?? (await this.#fetched(version, {}));
    await this.#checked(entry, entry.record.hash === own?.hash ? own.tree : undefined);
    return lockOf(entry, previous);
  }

  async verify(locked: LockedExtension): Promise<readonly string[]> {
    const entries = await this.#parts.cache.entries(this.#parts.ref.name);
    const files = Object.values(locked.files);
    const problems: string[] = [];
    for (const entry of entries.filter(({ record }) => record.version === locked.version)) {
      const file = files.find(({ hash }) => hash === entry.record.hash);
      if (file === undefined) continue;
      try {
        await this.#checked(entry, file.tree);
      } catch (error) {
        this.#parts.signal.throwIfAborted();
        if (!(error instanceof McpvalsError)) throw error;
        problems.push(error.message);
      }
    }
    return problems;
  }

  /** The file of the lock for this platform. */
  #fileOf({ files }: LockedExtension): LockedFile | undefined {
    return files[this.#platform] ?? files["any"];
  }

  async #read(
    entry: CacheEntry,
    { files, hash }: Tree,
    { name, version }: { readonly name: string; readonly version: string },
  ): Promise<ResolvedExtension> {
    const { ref } = this.#parts;
    const folder = filesOf(entry);
    const installed = { name, folder, files, shown: `${ref.name} ${version}` };
    const { program, manifest } = await readInstalled(ref, installed);
    checkProgram(program, installed);
    return {
      package: this.#written,
      ref,
      version,
      hash,
      folder,
      program: join(folder, program),
      ...(manifest === undefined ? {} : { manifest }),
    };
  }

  async #locked(locked: LockedExtension, how: ResolveMode): Promise<CacheEntry> {
    const { ref, cache } = this.#parts;
    if (locked.package !== ref.name) {
      throw new McpvalsError(
        "extension/invalid-lock",
        `the lock's entry for ${this.#written} is of another package, ${locked.package}.`,
      );
    }
    const file = this.#fileOf(locked);
    const known = file === undefined ? undefined : await cache.find(ref.name, locked.version, file.hash);
    if (known !== undefined) return known;
    if (how.frozen && file === undefined && locked.checksums === undefined) {
      throw this.#notLocked(`the lock has ${this.#written}, but not for ${this.#platform}`);
    }
    if (how.offline) throw this.#offline(`${ref.name} ${locked.version}`);
    return this.#fetched(locked.version, { locked, ...shaOf(how) });
  }

  async #unlocked(how: ResolveMode): Promise<CacheEntry> {
    if (how.frozen) throw this.#notLocked(`${this.#written} is not in the lock`);
    if (how.offline) return this.#newestCached();
    return this.#fetched(await this.newest(), shaOf(how));
  }

  /**
   * Fetches what the source offers. A cached version does not replace it: without a lock nothing vouches for the cache, whose
   * records could have been changed with the files.
   */
  async #fetched(version: string, expected: OfferExpectations): Promise<CacheEntry> {
    const { ref } = this.#parts;
    const offer = await this.#asked().offer(version, expected);
    checkOffer(offer, expected.locked, ref);
    const entry = await this.#add(offer);
    // The checksums can have changed around a file that stayed the same.
    const { checksums: _, ...record } = entry.record;
    return {
      ...entry,
      record: offer.checksums === undefined ? record : { ...record, checksums: offer.checksums },
    };
  }

  /** The source, which remembers its answers. */
  #asked(): VersionedSource {
    this.#source ??= this.#parts.source();
    return this.#source;
  }

  #add(offer: Offer): Promise<CacheEntry> {
    const { ref, cache } = this.#parts;
    const { version, name, hash, checksums } = offer;
    return cache.add(ref.name, version, async (folder) => {
      const { platform, executables } = await offer.fetch(folder);
      const sums = checksums === undefined ? {} : { checksums };
      return { entry: { package: ref.name, version, platform, name, hash, ...sums }, executables };
    });
  }

  /** Reads all files, and compares them with the lock, else with the record of the cache. */
  async #checked(entry: CacheEntry, locked: string | undefined): Promise<Tree> {
    const { record } = entry;
    const tree = await hashEntry(entry, this.#parts.signal);
    if (tree.hash === (locked ?? record.tree)) return tree;
    const changes = changedFiles(record, tree);
    const shown = `what is cached of ${record.package} ${record.version} in ${filesOf(entry)}`;
    if (changes === undefined && locked !== undefined) throw lockMismatch(shown, locked, tree.hash);
    throw integrityError({
      file: shown,
      expected: locked === undefined ? record.tree : `${locked}, as locked`,
      found: `${tree.hash}${changes === undefined ? "" : ` (${changes})`}`,
      hint: `Somebody changed it after it was fetched. Find out who; then remove ${entry.folder}, and it is fetched again.`,
    });
  }

  async #newestCached(): Promise<CacheEntry> {
    const entries = await this.#usable();
    const versions = entries.map(({ record }) => record.version);
    const version = newestOf(versions, this.#parts.ref);
    const entry = entries.find(({ record }) => record.version === version);
    if (entry === undefined) throw this.#offline(this.#written);
    return entry;
  }

  /** Cached entries for this platform, the last used first. */
  async #usable(): Promise<readonly CacheEntry[]> {
    const entries = await this.#parts.cache.entries(this.#parts.ref.name);
    return entries.filter(({ record }) => record.platform === this.#platform || record.platform === "any");
  }

  #notLocked(message: string): McpvalsError {
    return new McpvalsError("extension/not-locked", `${message}, and nothing else may be used (frozen).`);
  }

  #offline(what: string): McpvalsError {
    return new McpvalsError(
      "extension/unreachable",
      `${what} is not in the cache, and nothing may be fetched (offline).`,
      {
        hint: `Fetch it once with the network: mcpvals extensions add ${this.#written}.`,
      },
    );
  }
}

/** The program must be one of the verified files, whatever the lock or a manifest names. */
function checkProgram(program: string, { files, shown, folder }: InstalledFiles): void {
  if (files.some(({ path }) => path === program)) return;
  throw new McpvalsError(
    "extension/integrity",
    `the program of ${shown}, ${JSON.stringify(program)}, is not one of its files in ${folder}. Nothing of it was run.`,
    { hint: "Its manifest or its entry in mcp-eval.lock names another file; find out who wrote that." },
  );
}

function shaOf({ sha256 }: ResolveMode): { sha256?: string } {
  return sha256 === undefined ? {} : { sha256 };
}

/** A hash that the user has given holds for cached and locked files too. */
function checkGiven({ record, folder }: CacheEntry, sha256: string | undefined): void {
  const given = sha256 === undefined ? record.hash : givenHash(sha256);
  if (given === record.hash) return;
  throw integrityError({
    file: `${record.name} of ${record.package} ${record.version}`,
    expected: `${given}, as given`,
    found: record.hash,
    hint: `Compare both with what the authors publish elsewhere. It is in ${folder}.`,
  });
}

/** The entry of the lock. Files of the same version for other platforms stay. */
function lockOf({ record }: CacheEntry, previous: LockedExtension | undefined): LockedExtension {
  const { package: name, version, platform, checksums, hash, tree } = record;
  const isSame = previous?.version === version && previous.checksums === checksums;
  return {
    package: name,
    version,
    ...(checksums === undefined ? {} : { checksums }),
    files: { ...(isSame ? previous.files : {}), [platform]: { name: record.name, hash, tree } },
  };
}

/** A file has one hash, whatever platform it was locked on. */
function checkOffer(offer: Offer, locked: LockedExtension | undefined, ref: VersionedRef): void {
  const files = Object.values(locked?.files ?? {});
  const file = files.find(({ name }) => name === offer.name);
  const shown = `${offer.name} of ${ref.name} ${offer.version}`;
  if (file !== undefined && file.hash !== offer.hash) throw lockMismatch(shown, file.hash, offer.hash);
  if (locked !== undefined && locked.version !== offer.version) {
    throw lockMismatch(`the version of ${ref.name}`, locked.version, offer.version);
  }
}

/** The newest of some versions that matches the package as written. */
function newestOf(versions: readonly string[], { kind, version }: VersionedRef): string | undefined {
  if (kind === "npm" && version !== "latest") {
    if (versions.includes(version)) return version;
    return validRange(version) === null ? undefined : (maxSatisfying(versions, version) ?? undefined);
  }
  if (version !== "latest" && !isPartialVersion(version)) {
    return versions.find((each) => tagsOf(version).includes(each));
  }
  return newestTag(versions, version === "latest" ? undefined : version) ?? versions[0];
}

/** A package that has versions, which are fetched, cached and locked. */
export type VersionedRef = Extract<PackageRef, { kind: "release" | "npm" }>;

/** What all sources need. */
export type VersionedContext = Omit<ResolverOptions, "onProgress"> & SourceContext;

/** The source of a package that has versions. */
export function sourceOf(ref: VersionedRef, context: VersionedContext): VersionedSource {
  switch (ref.kind) {
    case "release":
      return new ReleaseSource(ref, { ...context, base: baseAddress(context.releasesUrl) });
    case "npm":
      return npmSource(ref, context);
  }
}

/** Verified files of a package. */
export interface InstalledFiles {
  /** Name of the file that was fetched. */
  readonly name: string;
  /** Absolute. */
  readonly folder: string;
  readonly files: readonly TreeFile[];
  /** What errors call the package. */
  readonly shown: string;
}

/** The program of a package, as a path in its folder, and its manifest. */
function readInstalled(ref: VersionedRef, installed: InstalledFiles): Promise<ProgramWithManifest> {
  switch (ref.kind) {
    case "release":
      return readRelease(ref, installed);
    case "npm":
      return readNpmPackage(ref, installed.folder, installed.shown);
  }
}
