import type { PackageRef } from "../../core/formats/extension/package-ref.ts";
import type { ProgramWithManifest } from "./choose-program.ts";
import { npmSource, readNpmPackage } from "./npm-source.ts";
import { readRelease, releaseSource } from "./release-source.ts";
import { baseAddress } from "./source-address.ts";
import type { TreeFile } from "./tree-hash.ts";
import type { SourceContext, VersionedSource } from "./versioned-source.ts";

/** A package that has versions, which are fetched, cached and locked. */
export type VersionedRef = Extract<PackageRef, { kind: "release" | "npm" }>;

export interface VersionedContext extends SourceContext {
  /** Base address of the API that lists releases. Default: GitHub's. */
  readonly releasesUrl?: string;
  /** Complete environment of npm. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path of the user's folder. */
  readonly home: string;
  /** Absolute folder of the project, whose registries of npm are heeded. */
  readonly dir?: string;
}

/** The source of a package that has versions: one line for each kind. */
export function sourceOf(ref: VersionedRef, context: VersionedContext): VersionedSource {
  switch (ref.kind) {
    case "release":
      return releaseSource(ref, { ...context, base: baseAddress(context.releasesUrl) });
    case "npm":
      return npmSource(ref, context);
  }
}

/** The files of a package that are here and verified. */
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
export function readInstalled(ref: VersionedRef, installed: InstalledFiles): Promise<ProgramWithManifest> {
  switch (ref.kind) {
    case "release":
      return readRelease(ref, installed);
    case "npm":
      return readNpmPackage(ref, installed.folder, installed.shown);
  }
}
