/** The first process of a tree, as far as the tree needs to know it. */
export interface TreeRoot {
  readonly pid: number;
  /** `NAME=value` that stands in the environment of every process of the tree. */
  readonly marker: string;
  /** Whether the first process has ended, so that its number may belong to another one. */
  readonly hasExited: () => boolean;
}

export type TreeSignal = "SIGTERM" | "SIGKILL";

/** A managed process with everything that it started. */
export interface ProcessTree {
  /** Counts the living processes of the tree, the first one included, and remembers them. */
  survey(): Promise<number>;
  signal(signal: TreeSignal): Promise<void>;
  /** Kills the whole tree before it returns. Never throws. */
  killNow(): void;
}
