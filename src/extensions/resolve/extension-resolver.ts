import type { LockedExtension } from "../../core/formats/extension/lock-file.ts";
import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";

/** Resolves packages to verified files. */
export interface ExtensionResolver {
  /**
   * Uses the version of `locked`, else the newest one that matches; fetches it when it is not cached; verifies every file. The
   * result's `locked` is the new entry of the lock; there is none for paths and included extensions. Throws McpvalsError of
   * the codes `extension/…`, and the signal's reason.
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

/** One version of a package in the cache. */
export interface CachedVersion {
  /** Without its version. */
  readonly package: string;
  readonly version: string;
  /** Such as `linux-amd64`, or `any`. */
  readonly platform: string;
  /** Of the file that was fetched, as the lock has it. */
  readonly hash: string;
  /** Of all unpacked files together. */
  readonly bytes: number;
  readonly usedAt: Date;
  /** Its record cannot be read, so it is never used, and only its folder is known. */
  readonly isDamaged?: true;
  /** Absolute. */
  readonly folder: string;
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
  /** The environment of mcpvals; programs that fetch packages get it. */
  readonly env: Readonly<Record<string, string>>;
}

export interface ResolverOptions extends ExtensionPlaces {
  /** Absolute folder of the project, whose `.npmrc` names registries. Default: none. */
  readonly dir?: string;
  readonly signal: AbortSignal;
  /** Is told what is fetched, in one line. */
  readonly onProgress?: (message: string) => void;
  /** Runs npm and gives its stdout. Default: the user's npm. */
  readonly runNpm?: RunNpm;
}

export interface NpmRun {
  /** The command with its options. */
  readonly args: readonly string[];
  /** They are never read as options. */
  readonly operands: readonly string[];
  /** Absolute folder. */
  readonly cwd: string;
  /** Complete environment; its PATH is where npm is found. */
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * Throws McpvalsError `extension/not-found` for what the registry does not have, `extension/integrity` for files that are not
 * what the registry says, else `extension/unreachable`.
 */
export type RunNpm = (run: NpmRun) => Promise<string>;

/** An extension with verified files. */
export interface ResolvedExtension {
  /** The package as written. */
  readonly package: string;
  readonly ref: PackageRef;
  /** Of the release or package; absent for paths. */
  readonly version?: string;
  /**
   * `sha256:HEX`: over all files of a release or package, as in the lock; else of the program alone, and absent when that is
   * not readable.
   */
  readonly hash?: string;
  /** Absolute folder that has all of its files. */
  readonly folder: string;
  /** Absolute path of the program. */
  readonly program: string;
  /**
   * Throws McpvalsError `extension/integrity` when a file has changed since it was verified; to be called before each start.
   * Absent for paths and included extensions, which are not verified.
   */
  readonly recheck?: () => Promise<void>;
  /** Its `extension.yaml`; without one the program must be asked. */
  readonly manifest?: ExtensionManifest;
}

/** The source of one package with versions. */
export interface VersionedSource {
  /** The newest version that matches the package as written. Throws McpvalsError `extension/not-found`. */
  newest(): Promise<string>;
  /**
   * The file of a version for this platform with its hash; it is not fetched yet. Throws McpvalsError `extension/not-found`,
   * and `extension/integrity` for a file that cannot be verified or differs from the lock.
   */
  offer(version: string, expected: OfferExpectations): Promise<Offer>;
}

export interface OfferExpectations {
  readonly locked?: LockedExtension;
  /** SHA-256 in hex that the user has given. */
  readonly sha256?: string;
}

/** A file that can be fetched. */
export interface Offer {
  /** As the source writes it. */
  readonly version: string;
  readonly name: string;
  readonly hash: string;
  /** `sha256:HEX` of the release's file of checksums. */
  readonly checksums?: string;
  /**
   * Fetches it, verifies it, and puts its files into an empty folder; beside that folder it may keep other files. Throws
   * McpvalsError `extension/integrity` when it is not what was offered.
   */
  fetch(folder: string): Promise<FetchedFiles>;
}

export interface FetchedFiles {
  /** Such as `linux-amd64`, or `any`. */
  readonly platform: string;
  /** Paths of the executable files. */
  readonly executables: ReadonlySet<string>;
}

/** What a source needs. */
export interface SourceContext {
  readonly signal: AbortSignal;
  readonly onProgress: (message: string) => void;
}
