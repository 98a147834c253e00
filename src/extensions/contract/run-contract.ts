import type { ExtensionManifest, ExtensionProtocol } from "../../core/formats/extension/manifest.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import type { ContractReport, ContractVerdict, Subject } from "./contract-report.ts";
import { tryJsonRpc } from "./try-json-rpc.ts";
import { tryOneShot } from "./try-one-shot.ts";

export type { ContractReport, ContractVerdict } from "./contract-report.ts";

/** How long a program has for each answer, in milliseconds, when nothing else is said. */
const usualTimeoutMs = 10_000;

export interface ContractOptions {
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute folder that the program starts in, and that it is told to work in. */
  readonly cwd: string;
  /** Its complete environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Settings for `initialize`. */
  readonly config?: JsonObject;
  /** What its `extension.yaml` says, to be compared. */
  readonly manifest?: ExtensionManifest;
  /** Longest wait for each answer, in milliseconds. Default: 10 seconds. */
  readonly timeoutMs?: number;
  /** Default: the one that the manifest names, or JSON-RPC. */
  readonly protocols?: readonly ExtensionProtocol[];
  readonly signal: AbortSignal;
}

/**
 * Tries from outside whether a program does what every extension must do. No operation is run: only unknown ones are
 * called, and known ones without the arguments that they need. Everything that was started has ended when it returns.
 * Rejects with the signal's reason. Where JSON-RPC is tried before one shot, that knows from it what operations take.
 */
export async function runContract(options: ContractOptions): Promise<ContractReport> {
  const { command, args, cwd, env, config = {}, manifest, timeoutMs = usualTimeoutMs, signal } = options;
  const subject: Subject = { command, args, cwd, env, config, manifest, timeoutMs, signal };
  const protocols = options.protocols ?? [manifest?.protocol ?? "json-rpc"];
  const verdicts: ContractVerdict[] = [];
  let known = manifest;
  for (const protocol of protocols) {
    if (protocol === "one-shot") {
      verdicts.push(...(await tryOneShot({ ...subject, manifest: known })));
    } else {
      const outcome = await tryJsonRpc(subject);
      verdicts.push(...outcome.verdicts);
      known ??= outcome.manifest;
    }
  }
  return { program: [command, ...args].join(" "), protocols, verdicts };
}

/** Whether a program did all that it must: nothing failed, and something was tried. */
export function contractHolds({ verdicts }: ContractReport): boolean {
  const tried = verdicts.filter(({ outcome }) => outcome !== "skip");
  return tried.length > 0 && tried.every(({ outcome }) => outcome !== "fail");
}
