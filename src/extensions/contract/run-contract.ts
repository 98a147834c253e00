import type { ExtensionManifest, ExtensionProtocol } from "../../core/formats/extension/manifest.ts";
import type { ContractReport, ContractVerdict, Subject } from "./contract-report.ts";
import { tryJsonRpc } from "./try-json-rpc.ts";
import { tryOneShot } from "./try-one-shot.ts";

export type { ContractReport, ContractVerdict } from "./contract-report.ts";

const defaultTimeoutMs = 10_000;

/** `timeoutMs` is 10 seconds by default, `startupMs` as long as `timeoutMs`. */
export interface ContractOptions
  extends
    Pick<Subject, "command" | "args" | "cwd" | "env" | "signal">,
    Partial<Pick<Subject, "config" | "timeoutMs" | "startupMs">> {
  readonly manifest?: ExtensionManifest;
  /** Default: the one of the manifest, or JSON-RPC. */
  readonly protocols?: readonly ExtensionProtocol[];
}

/**
 * Checks from outside that a program does what every extension must do. No operation is carried out: only unknown ones are
 * called, and known ones without their required arguments. When it returns, everything that was started has ended. Rejects
 * with the signal's reason. One-shot checks after those of JSON-RPC use the manifest that the program gave there.
 */
export async function runContract(options: ContractOptions): Promise<ContractReport> {
  const {
    config = {},
    manifest,
    timeoutMs = defaultTimeoutMs,
    protocols = [manifest?.protocol ?? "json-rpc"],
  } = options;
  const { startupMs = timeoutMs } = options;
  const subject: Subject = { ...options, config, manifest, timeoutMs, startupMs };
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
  return { program: [options.command, ...options.args].join(" "), protocols, verdicts };
}

/** Whether no check failed, and at least one was not skipped. */
export function contractHolds({ verdicts }: ContractReport): boolean {
  const tried = verdicts.filter(({ outcome }) => outcome !== "skip");
  return tried.length > 0 && tried.every(({ outcome }) => outcome !== "fail");
}
