import type { LockedExtension } from "../../core/formats/extension/lock-file.ts";

/** Where one package with versions comes from. */
export interface VersionedSource {
  /** The newest version that is meant, or exactly the written one. Throws McpvalsError `extension/not-found`. */
  newest(): Promise<string>;
  /**
   * Which file of a version is for this platform, and what it must be; nothing of it is fetched yet. Throws McpvalsError
   * `extension/not-found`, and `extension/integrity` for what nobody vouches for and what is not as locked.
   */
  offer(version: string, expected: OfferExpectations): Promise<Offer>;
}

export interface OfferExpectations {
  readonly locked?: LockedExtension;
  /** SHA-256 in hex that the user has given. */
  readonly sha256?: string;
}

/** A file that could be fetched. */
export interface Offer {
  /** As the source writes it. */
  readonly version: string;
  readonly name: string;
  readonly hash: string;
  /** `sha256:HEX` of the release's file of checksums. */
  readonly checksums?: string;
  /**
   * Fetches it, checks it, and puts its files into a folder that is there and empty; beside that folder it may keep other
   * files. Throws McpvalsError `extension/integrity` when it is not what was offered.
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
