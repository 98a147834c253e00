import type { SourceLocation } from "../errors/error.ts";
import type { JsonObject } from "./json-value.ts";

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

/** What confines an extension. Only `none` lets it see what mcpvals itself can see. */
export interface SandboxSpec {
  /** `process`: bubblewrap, or Seatbelt on macOS; `docker`: a container. */
  readonly kind: "none" | "process" | "docker";
  /** `host`: the network of this machine. Default: none at all. */
  readonly network: "none" | "host";
  /** Further paths that it may read, absolute, relative to `dir`, or beginning with `~/`. */
  readonly read: readonly string[];
  /** Longest sum of what its processes hold in memory, in bytes. */
  readonly memoryBytes: number;
  /** Most processes at once, itself included. */
  readonly processes: number;
  /** Image of the container. */
  readonly image?: string;
  /** The container program with arguments that go before `run`; absent: `docker` or `podman`, whichever works. */
  readonly runtime?: readonly string[];
}

/** Limits of a sandbox that says nothing else. */
export const defaultSandbox: SandboxSpec = {
  kind: "none",
  network: "none",
  read: [],
  memoryBytes: 512 * 1024 * 1024,
  processes: 64,
};

/** How the extensions of an eval are fetched. */
export interface ExtensionSettings {
  /** Absolute folder; absent: `~/.mcpvals/extensions`. */
  readonly cacheDir?: string;
  /** Globs of packages without their version, of which one must fit; absent: any source. */
  readonly allowedSources?: readonly string[];
  /** Base address of the API that lists releases; absent: GitHub's. */
  readonly releasesUrl?: string;
}
