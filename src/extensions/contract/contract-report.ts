import type { ExtensionProtocol } from "../../core/formats/extension/manifest.ts";

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
