/** `mcp-eval.lock`: which version of each package a run uses, and what its files must be. */
export interface LockFile {
  readonly version: 1;
  /** By package as it is written, version included. Packages that are paths or bundled are never in it. */
  readonly extensions: Readonly<Record<string, LockedExtension>>;
}

export interface LockedExtension {
  /** The package without a version. */
  readonly package: string;
  /** The version that was chosen: a release's tag, or a version of npm. */
  readonly version: string;
  /** `sha256:HEX` of the release's file of checksums; absent where it has none. */
  readonly checksums?: string;
  /** By platform, such as `linux-amd64`; `any` for what runs everywhere. */
  readonly files: Readonly<Record<string, LockedFile>>;
}

export interface LockedFile {
  /** Name of the file that was fetched. */
  readonly name: string;
  /** Of that file: `sha256:HEX`, or npm's `sha512-BASE64`. */
  readonly hash: string;
  /** `sha256:HEX` over all unpacked files with their names and executable bits. */
  readonly tree: string;
}
