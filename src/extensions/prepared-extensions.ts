import type { ExtensionSpec } from "../core/formats/model.ts";
import type { ResolvedExtension } from "./resolve/extension-resolver.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

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
