import type { SandboxSpec } from "../core/formats/model.ts";
import type { ManagedProcess, ProcessSpec } from "../process/spawn.ts";

/** A program to be started, and what it may see. All paths are absolute. */
export interface Confinement {
  /** Command, arguments, complete environment and folder, as they are without a sandbox. */
  readonly process: ProcessSpec;
  /** Files and folders that it may read besides the system's: the extension's own, the task's folder, what the spec lists. */
  readonly read: readonly string[];
  /** Folders that it may write: the trial's workspace. */
  readonly write: readonly string[];
  readonly spec: SandboxSpec;
}

/** A confined program. */
export interface ConfinedProcess extends ManagedProcess {
  /** Why it was ended, when it broke a limit; undefined otherwise. */
  readonly brokenLimit: string | undefined;
}

/** One way to confine programs. */
export interface Sandbox {
  readonly kind: SandboxSpec["kind"];
  /** Tries it once, for real. Throws McpvalsError `sandbox/unavailable` where it cannot be had, with what to do. */
  check(spec: SandboxSpec, signal: AbortSignal): Promise<void>;
  /**
   * Starts the program. Stopping it ends everything that it started, whatever that did to hide. Throws McpvalsError
   * `server/spawn-failed`, and `sandbox/unavailable`.
   */
  start(confinement: Confinement): Promise<ConfinedProcess>;
}
