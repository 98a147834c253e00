import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";

/** An extension whose files are here and are what they should be. */
export interface ResolvedExtension {
  /** The package as written. */
  readonly package: string;
  readonly ref: PackageRef;
  /** Of the release or package; absent for paths. */
  readonly version?: string;
  /**
   * `sha256:HEX`: of a release or package over all of its files, as the lock has it; else of the program alone, and absent when
   * that may not be read.
   */
  readonly hash?: string;
  /** Absolute folder that has all of its files. */
  readonly folder: string;
  /** Absolute path of the program. */
  readonly program: string;
  /**
   * Throws McpvalsError `extension/integrity` when a file is no longer what it was when it was verified; to be called before each
   * start. Absent where nothing was verified: for paths, and what comes with us.
   */
  readonly recheck?: () => Promise<void>;
  /** From its `extension.yaml`; absent when it has none and must be asked. */
  readonly manifest?: ExtensionManifest;
}
