import type { ExtensionManifest, ExtensionProtocol } from "../../core/formats/extension/manifest.ts";
import type { JsonObject } from "../../core/formats/model.ts";

/** The result of the contract checks of a program. */
export interface ContractReport {
  /** The command with its arguments. */
  readonly program: string;
  /** The protocols that were tried. */
  readonly protocols: readonly ExtensionProtocol[];
  /** In the order in which they were reached. At least one is not `skip`. */
  readonly verdicts: readonly ContractVerdict[];
}

export interface ContractVerdict extends Finding {
  /** Name of the check, such as `unknown operation`. */
  readonly name: string;
  readonly protocol: ExtensionProtocol;
}

/** The outcome of a check. `skip`: it could not be tried, and the message says why. */
export interface Finding {
  readonly outcome: "pass" | "fail" | "warn" | "skip";
  readonly message: string;
}

export const pass = (message: string): Finding => ({ outcome: "pass", message });
export const fail = (message: string): Finding => ({ outcome: "fail", message });
export const warn = (message: string): Finding => ({ outcome: "warn", message });
export const skip = (message: string): Finding => ({ outcome: "skip", message });

/** The program that is tried. */
export interface Subject {
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute folder that it starts in, and that it is told to work in. */
  readonly cwd: string;
  /** Its complete environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Settings for `initialize`. */
  readonly config: JsonObject;
  /** Its `extension.yaml`, to be compared. */
  readonly manifest: ExtensionManifest | undefined;
  /** Longest wait for each answer, in milliseconds. */
  readonly timeoutMs: number;
  /** Longest wait for the answer to `initialize`, the start of the process included, in milliseconds. */
  readonly startupMs: number;
  readonly signal: AbortSignal;
}

/** Faults that can happen whatever is requested; each is a check, with its message when there was none. */
const faultChecks = {
  stdout: "nothing but messages on stdout",
  "unfinished line": "every line had its end",
  logs: "logs are valid notifications, and not too many",
  "answer size": "no answer over 10 MiB",
  "answers once": "every request was answered once",
  leftovers: "no process that it started outlived it",
} as const;

export type FaultName = keyof typeof faultChecks;

/** One-shot programs have neither lines nor logs. */
const oneShotFaults: readonly FaultName[] = ["stdout", "answer size", "leftovers"];
/** How many faults of one check are shown. */
const mostShown = 3;

/** Collects faults over all processes of a program. */
export class Faults {
  readonly #found = new Map<FaultName, Set<string>>();

  add(name: FaultName, message: string): void {
    const messages = this.#found.get(name) ?? new Set();
    this.#found.set(name, messages.add(message));
  }

  /** `answered`: whether the program ever did; the absence of faults means nothing otherwise. */
  verdicts(protocol: ExtensionProtocol, answered: boolean): readonly ContractVerdict[] {
    const names = protocol === "one-shot" ? oneShotFaults : (Object.keys(faultChecks) as FaultName[]);
    return names.map((name) => {
      const messages = [...(this.#found.get(name) ?? [])];
      const more = messages.length - mostShown;
      const shown = [...messages.slice(0, mostShown), ...(more > 0 ? [`and ${more} more`] : [])];
      if (shown.length > 0) return { name, protocol, ...fail(shown.join("; ")) };
      return { name, protocol, ...(answered ? pass(faultChecks[name]) : skip("the program never answered")) };
    });
  }
}
