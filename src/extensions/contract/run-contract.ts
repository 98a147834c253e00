import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { ExtensionManifest, ExtensionProtocol } from "../../core/formats/extension/manifest.ts";
import { withDeadline } from "../../process/deadline.ts";
import { makeTemporaryFolder } from "../../process/folders.ts";
import type { ExtensionProcess } from "../host/extension-process.ts";
import { readOutput, readResult, startOneShot, writeCall } from "../host/one-shot.ts";
import { operationsWithRequiredArguments } from "./manifest-checks.ts";
import {
  type ContractVerdict,
  fail,
  type Finding,
  pass,
  skip,
  type Subject,
  SubjectProgram,
  unknownOperation,
  warn,
} from "./subject.ts";
import { tryJsonRpc } from "./try-json-rpc.ts";

export type { ContractVerdict } from "./subject.ts";

/** The result of the contract checks of a program. */
export interface ContractReport {
  /** The command with its arguments. */
  readonly program: string;
  /** The protocols that were tried. */
  readonly protocols: readonly ExtensionProtocol[];
  /** In the order in which they were reached. At least one is not `skip`. */
  readonly verdicts: readonly ContractVerdict[];
}

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
  const { config = {}, manifest, timeoutMs = 10_000, startupMs = timeoutMs } = options;
  const { protocols = [manifest?.protocol ?? "json-rpc"] } = options;
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

/** Tries a program in the protocol that starts it once for each operation. Rejects only with the signal's reason. */
async function tryOneShot(subject: Subject): Promise<readonly ContractVerdict[]> {
  const { manifest, config, timeoutMs, signal } = subject;
  const program = new SubjectProgram(subject);
  const folder = await makeTemporaryFolder("contract");
  /** Makes a call that must be refused. `isInvalid`: an exit code without a result is enough. */
  const call = async (words: readonly string[], what: string, isInvalid: boolean): Promise<Finding> => {
    let process: ExtensionProcess | undefined;
    try {
      const args = [...program.start.args, ...words];
      const started = await startOneShot({ ...program.start, args }, folder);
      process = started;
      const output = await withDeadline(() => readOutput(started), {
        ms: timeoutMs,
        signal,
        onTimeout: () => started.error("extension/timeout", `did not end within ${timeoutMs} ms`),
      });
      await program.checkLeftovers(started);
      const { exitCode } = output.exit;
      const isSilent = output.stdout.toString("utf8").trim() === "";
      if (isInvalid && isSilent && exitCode !== null && exitCode !== 0)
        return pass("refused by the exit code");
      if (readResult(output, started, what).success) return fail(`${what} was answered with success: true`);
      return exitCode === 0
        ? warn(
            `${what} was answered with success: false, but the exit code is 0, which other hosts may go by`,
          )
        : pass("refused with success: false, and by the exit code");
    } catch (error) {
      return fail(`${what}: ${program.problemOf(error)}`);
    } finally {
      await process?.kill();
    }
  };
  const wordsOf = (operation: string): Promise<readonly string[]> => {
    const context = program.contextOf(manifest?.operations[operation]?.phases[0]);
    return writeCall(folder, { operation, args: {}, config, context });
  };
  const tryArguments = async (): Promise<Finding> => {
    if (manifest === undefined)
      return skip("without extension.yaml the arguments of operations are not known");
    const [name] = operationsWithRequiredArguments(manifest);
    if (name === undefined) return skip("no operation has required arguments");
    return call(await wordsOf(name), `${name} without its required arguments`, true);
  };
  try {
    const unknown = await call(await wordsOf(unknownOperation), "an unknown operation", false);
    // A program that does not work at all would refuse everything by its exit code.
    const untried = unknown.outcome === "fail" ? skip('not tried, see "unknown operation"') : undefined;
    const missing = ["action", unknownOperation, "--input", join(folder, "no-such-file.json")];
    const verdicts = [
      { name: "unknown operation", ...unknown },
      { name: "arguments", ...(untried ?? (await tryArguments())) },
      {
        name: "missing input",
        ...(untried ?? (await call(missing, "an input file that does not exist", true))),
      },
    ];
    const answered = verdicts.some(({ outcome }) => outcome === "pass" || outcome === "warn");
    return [
      ...verdicts.map((verdict): ContractVerdict => ({ protocol: "one-shot", ...verdict })),
      ...program.faultVerdicts("one-shot", answered),
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
