/** What confines a program. Only `none` lets it see what mcpvals itself can see. */
export interface SandboxSpec {
  /** `process`: bubblewrap, or Seatbelt on macOS; `docker`: a container. */
  readonly kind: "none" | "process" | "docker";
  /** `host`: the network of this machine. Default: none at all. */
  readonly network: "none" | "host";
  /** Further paths that it may read, absolute, relative to the folder of who starts it, or beginning with `~/`. */
  readonly read: readonly string[];
  /** Further paths that it may write, likewise. */
  readonly write: readonly string[];
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
  write: [],
  memoryBytes: 512 * 1024 * 1024,
  processes: 64,
};
