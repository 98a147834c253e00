import type { ExtensionManifest, ExtensionProtocol } from "../../core/formats/extension/manifest.ts";
import type { JsonObject } from "../../core/formats/model.ts";

/** What a program did with all that an extension must do. */
export interface ContractReport {
  /** The command with its arguments. */
  readonly program: string;
  /** The protocols that were tried. */
  readonly protocols: readonly ExtensionProtocol[];
  /** In the order in which they were reached. There is at least one that is no `skip`. */
  readonly verdicts: readonly ContractVerdict[];
}

export interface ContractVerdict extends Finding {
  /** Name of the check, such as `unknown operation`. */
  readonly name: string;
  readonly protocol: ExtensionProtocol;
}

/** How a check ended. `skip`: it could not be tried, and the message says why. */
export interface Finding {
  readonly outcome: "pass" | "fail" | "warn" | "skip";
  readonly message: string;
}

export function pass(message: string): Finding {
  return { outcome: "pass", message };
}

export function fail(message: string): Finding {
  return { outcome: "fail", message };
}

export function warn(message: string): Finding {
  return { outcome: "warn", message };
}

export function skip(message: string): Finding {
  return { outcome: "skip", message };
}

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
