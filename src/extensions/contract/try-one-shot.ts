import { rm } from "node:fs/promises";
import { join } from "node:path";
import { withDeadline } from "../../process/deadline.ts";
import { makeTemporaryFolder } from "../../process/folders.ts";
import type { ExtensionProcess } from "../host/extension-process.ts";
import { readOutput, readResult, startOneShot, writeCall } from "../host/one-shot.ts";
import {
  type ContractVerdict,
  fail,
  Faults,
  type Finding,
  pass,
  skip,
  type Subject,
  warn,
} from "./contract-report.ts";
import { operationsWithRequiredArguments } from "./manifest-checks.ts";
import { checkLeftovers, contextOf, problemOf, startOf, unknownOperation } from "./subject-process.ts";

/** Tries a program in the protocol that starts it once for each operation. Rejects only with the signal's reason. */
export async function tryOneShot(subject: Subject): Promise<readonly ContractVerdict[]> {
  const faults = new Faults();
  const folder = await makeTemporaryFolder("contract");
  try {
    const call = async (operation: string, what: string, isInvalid: boolean): Promise<Finding> => {
      const context = contextOf(subject, subject.manifest?.operations[operation]?.phases[0]);
      const words = await writeCall(folder, { operation, args: {}, config: subject.config, context });
      return tryCall(subject, words, { what, isInvalid, folder, faults });
    };
    const tryMissingInput = (): Promise<Finding> => {
      const words = ["action", unknownOperation, "--input", join(folder, "no-such-file.json")];
      const what = "an input file that does not exist";
      return tryCall(subject, words, { what, isInvalid: true, folder, faults });
    };
    const tryArguments = async (): Promise<Finding> => {
      const { manifest } = subject;
      if (manifest === undefined)
        return skip("without extension.yaml the arguments of operations are not known");
      const [name] = operationsWithRequiredArguments(manifest);
      if (name === undefined) return skip("no operation has required arguments");
      return call(name, `${name} without its required arguments`, true);
    };
    const unknown = await call(unknownOperation, "an unknown operation", false);
    // A program that does not work at all would refuse everything by its exit code.
    const attempt = async (check: () => Promise<Finding>): Promise<Finding> =>
      unknown.outcome === "fail" ? skip('not tried, see "unknown operation"') : check();
    const verdicts = [
      { name: "unknown operation", ...unknown },
      { name: "arguments", ...(await attempt(tryArguments)) },
      { name: "missing input", ...(await attempt(tryMissingInput)) },
    ];
    const answered = verdicts.some(({ outcome }) => outcome === "pass" || outcome === "warn");
    return [
      ...verdicts.map((verdict): ContractVerdict => ({ protocol: "one-shot", ...verdict })),
      ...faults.verdicts("one-shot", answered),
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Makes a call that must be refused. `isInvalid`: an exit code without a result is enough. */
async function tryCall(
  subject: Subject,
  words: readonly string[],
  { what, folder, faults, isInvalid }: Refused,
): Promise<Finding> {
  const { timeoutMs, signal } = subject;
  const start = startOf(subject, faults);
  let process: ExtensionProcess | undefined;
  try {
    const started = await startOneShot({ ...start, args: [...start.args, ...words] }, folder);
    process = started;
    const output = await withDeadline(() => readOutput(started), {
      ms: timeoutMs,
      signal,
      onTimeout: () => started.error("extension/timeout", `did not end within ${timeoutMs} ms`),
    });
    await checkLeftovers(started, start, faults);
    const { exitCode } = output.exit;
    const isSilent = output.stdout.toString("utf8").trim() === "";
    if (isInvalid && isSilent && exitCode !== null && exitCode !== 0) return pass("refused by the exit code");
    const { success } = readResult(output, process, what);
    if (success) return fail(`${what} was answered with success: true`);
    return exitCode === 0
      ? warn(`${what} was answered with success: false, but the exit code is 0, which other hosts may go by`)
      : pass("refused with success: false, and by the exit code");
  } catch (error) {
    return fail(`${what}: ${problemOf(error, subject, faults)}`);
  } finally {
    await process?.kill();
  }
}

interface Refused {
  /** What messages call the call. */
  readonly what: string;
  readonly isInvalid: boolean;
  /** Of the input. */
  readonly folder: string;
  readonly faults: Faults;
}
