import type { OperationResult } from "../core/formats/extension/protocol.ts";
import type { ExtensionSpec, JsonObject } from "../core/formats/model.ts";
import type { Phase } from "../core/trace/events.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { ResolvedExtension } from "./resolve/program.ts";

/** The extensions of one trial. */
export interface OperationHost {
  /**
   * Runs one operation; its arguments are checked and completed before. Throws McpvalsError of the codes `extension/…`
   * when it could not be run or did not answer as it must, and the signal's reason. After either the next call gets a
   * fresh process.
   */
  execute(call: OperationCall, signal: AbortSignal): Promise<OperationResult>;
}

/** One operation to be run. */
export interface OperationCall {
  /** Id of the step. */
  readonly step: string;
  /** Name of the extension among those of the task. */
  readonly extension: string;
  readonly operation: string;
  readonly args: JsonObject;
  readonly phase: Phase;
  /** Longest that it may take, in milliseconds, starting the extension's process included. */
  readonly timeoutMs: number;
}

/** An extension that can be started. */
export interface PreparedExtension {
  readonly spec: ExtensionSpec;
  readonly resolved: ResolvedExtension;
  readonly sandbox: Sandbox;
}

/** Every extension that the tasks of a run use, found by their specs. */
export interface PreparedExtensions {
  /** Throws an Error for a spec that was not prepared: a bug. */
  of(spec: ExtensionSpec): PreparedExtension;
  /** What is worth telling: what was locked, what runs unconfined. */
  readonly notes: readonly string[];
}
