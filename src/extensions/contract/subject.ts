import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import type { JsonObject } from "../../core/formats/model.ts";

/** The program that is tried. */
export interface Subject {
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute folder that it starts in. */
  readonly cwd: string;
  /** Its complete environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly config: JsonObject;
  /** What its `extension.yaml` says. */
  readonly manifest: ExtensionManifest | undefined;
  /** Longest wait for an answer, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}
