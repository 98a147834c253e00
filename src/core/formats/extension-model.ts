import type { SourceLocation } from "../errors/error.ts";
import type { JsonObject } from "./json.ts";
import type { SandboxSpec } from "./sandbox.ts";

/** An extension as a task uses it: an outside program that adds steps. */
export interface ExtensionSpec {
  /** What steps name it by. */
  readonly alias: string;
  /** Where it comes from, as written; see `parsePackageRef`. */
  readonly package: string;
  /** Absolute folder that a relative `package`, and relative paths in `sandbox.read`, start from. */
  readonly dir: string;
  /** Settings that it is started with. Texts may have templates, which each trial replaces. */
  readonly config: JsonObject;
  /** Variables for its process, with templates. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables of the shell that its process gets besides, by name; `true`: all. Not in a sandbox. Absent: none. */
  readonly inheritEnv?: readonly string[] | true;
  readonly sandbox: SandboxSpec;
  /** Where the file says so. */
  readonly location?: SourceLocation;
}

/** How the extensions of an eval are fetched. */
export interface ExtensionSettings {
  /** Absolute folder; absent: `~/.mcpvals/extensions`. */
  readonly cacheDir?: string;
  /** Globs of packages without their version, of which one must fit; absent: any source. */
  readonly allowedSources?: readonly string[];
  /** Base address of the API that lists releases; absent: GitHub's. */
  readonly releasesUrl?: string;
}
