import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ExtensionPhase } from "../../core/formats/extension/manifest.ts";
import { type OperationResult, readOperationResult } from "../../core/formats/extension/protocol.ts";
import { settlesWithin, untilAborted } from "../../process/deadline.ts";
import { ProgramOutput } from "../../process/program-output.ts";
import { makeTemporaryFolder } from "../../process/folders.ts";
import {
  type ContractVerdict,
  fail,
  type Finding,
  pass,
  skip,
  type Subject,
  warn,
} from "./contract-report.ts";
import { Faults, startProblem, WatchedProcess } from "./watched-process.ts";
import { shown } from "./conversation.ts";
import { contextOf, needArguments, unknownOperation } from "./session-checks.ts";

/** Largest answer, in bytes. */
const largestAnswer = 10 * 1024 * 1024;
/** How long what was written before the end may take to arrive, in milliseconds. */
const drainMs = 100;
const untried = 'not tried, see "unknown operation"';

/** Tries a program in the protocol that starts it once for each operation. Rejects only with the signal's reason. */
export async function tryOneShot(subject: Subject): Promise<readonly ContractVerdict[]> {
  const folder = await makeTemporaryFolder("contract");
  const trial: Trial = { subject, folder, faults: new Faults() };
  try {
    const unknown = await tryUnknown(trial);
    // An exit code that is not 0 is all that is asked of it, and a program that does not work at all has that too.
    const works = unknown.outcome === "pass" || unknown.outcome === "warn";
    const verdicts = [
      { name: "unknown operation", ...unknown },
      { name: "arguments", ...(works ? await tryArguments(trial) : skip(untried)) },
      { name: "missing input", ...(works ? await tryMissingInput(trial) : skip(untried)) },
    ].map((verdict): ContractVerdict => ({ protocol: "one-shot", ...verdict }));
    const answered = verdicts.some(({ outcome }) => outcome === "pass" || outcome === "warn");
    return [...verdicts, ...trial.faults.verdicts("one-shot", answered)];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

interface Trial {
  readonly subject: Subject;
  /** For the input files. */
  readonly folder: string;
  readonly faults: Faults;
}

async function tryUnknown(trial: Trial): Promise<Finding> {
  return refusal(await call(trial, { operation: unknownOperation, phase: "setup" }), "an unknown operation");
}

async function tryArguments(trial: Trial): Promise<Finding> {
  const { manifest } = trial.subject;
  const [name] = manifest === undefined ? [] : needArguments(manifest);
  if (manifest === undefined) return skip("without extension.yaml it is not known what operations take");
  if (name === undefined) return skip("no operation has required arguments");
  const phase = manifest.operations[name]?.phases[0] ?? "setup";
  return brokenCall(await call(trial, { operation: name, phase }), `${name} without its required arguments`);
}

async function tryMissingInput(trial: Trial): Promise<Finding> {
  const input = join(trial.folder, "there-is-no-such-file.json");
  const end = await runProgram(trial, ["action", unknownOperation, "--input", input]);
  return brokenCall(end, "an input file that does not exist");
}

interface OneShotCall {
  readonly operation: string;
  readonly phase: ExtensionPhase;
}

async function call(trial: Trial, { operation, phase }: OneShotCall): Promise<Ended> {
  const { config, cwd } = trial.subject;
  const input = join(trial.folder, "input.json");
  const settings = Object.keys(config).length === 0 ? {} : { config };
  await writeFile(input, JSON.stringify({ args: {}, context: contextOf(cwd, phase), ...settings }));
  return runProgram(trial, [phase === "verify" ? "check" : "action", operation, "--input", input]);
}

/** How one call ended. */
type Ended =
  | {
      readonly kind: "ended";
      readonly exitCode: number;
      readonly how: string;
      readonly stderr: string;
      readonly text: string;
    }
  | { readonly kind: "none"; readonly message: string };

async function runProgram({ subject, faults }: Trial, args: readonly string[]): Promise<Ended> {
  let process: WatchedProcess;
  try {
    process = await WatchedProcess.start(subject, args);
  } catch (error) {
    subject.signal.throwIfAborted();
    return { kind: "none", message: startProblem(error) };
  }
  try {
    return await watch(process, subject, faults);
  } finally {
    await process.finish(faults);
  }
}

async function watch(process: WatchedProcess, subject: Subject, faults: Faults): Promise<Ended> {
  const { timeoutMs, signal } = subject;
  const output = new ProgramOutput(largestAnswer);
  output.attach({ stdout: process.stdout, stderr: process.stderr });
  process.stdin.end();
  const tooLarge = overflow(process);
  const work = Promise.race([process.exited, tooLarge]);
  if (!(await untilAborted(settlesWithin(work, timeoutMs), signal))) {
    return { kind: "none", message: `the program did not end within ${timeoutMs} ms${process.stderrTail}` };
  }
  await output.settle(drainMs);
  output.stop();
  const { text, omitted } = output.stdout;
  if (omitted > 0) {
    const message = `more than ${largestAnswer / 1024 / 1024} MB on stdout`;
    faults.add("answer size", message);
    return { kind: "none", message };
  }
  const how = process.howItEnded ?? "lives";
  const exitCode = process.exit?.exitCode ?? null;
  if (exitCode === null) return { kind: "none", message: `the program ${how}${process.stderrTail}` };
  const stderr = process.stderrTail;
  return { kind: "ended", exitCode, how, stderr, text: checked(text, faults) };
}

/** Settles when a program has written more than an answer may have. */
function overflow(process: WatchedProcess): Promise<void> {
  return new Promise((resolve) => {
    let bytes = 0;
    process.stdout.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > largestAnswer) resolve();
    });
  });
}

/** What stands on stdout, where it is one JSON value; else the last line that is one, and the rest is a fault. */
function checked(text: string, faults: Faults): string {
  if (text.trim() === "" || parse(text) !== undefined) return text;
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const last = lines.at(-1) ?? "";
  const junk = parse(last) === undefined ? lines : lines.slice(0, -1);
  faults.add("stdout", `what is no result on stdout: ${shown(Buffer.from(junk[0] ?? text))}`);
  return last;
}

function parse(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined; // not JSON, which the caller tells
  }
}

/** A call that is wrong in itself is no finding about anybody, so that the exit code may be all that there is. */
function brokenCall(end: Ended, what: string): Finding {
  if (end.kind === "ended" && end.exitCode !== 0 && end.text.trim() === "")
    return pass("refused by the exit code");
  return refusal(end, what);
}

function refusal(end: Ended, what: string): Finding {
  if (end.kind === "none") return fail(`${what}: ${end.message}`);
  const { text, how, stderr, exitCode } = end;
  if (text.trim() === "") return fail(`${what}: the program ${how}, without a result on stdout${stderr}`);
  const parsed = parse(text);
  if (parsed === undefined)
    return fail(`${what}: what stands on stdout is not JSON: ${shown(Buffer.from(text))}`);
  const read = readOperationResult(parsed.value);
  if (!read.ok) return fail(`${what} was answered with what is no result: ${read.message}`);
  return resultFinding(read.result, exitCode, what);
}

function resultFinding({ success }: OperationResult, exitCode: number, what: string): Finding {
  if (success) return fail(`${what} was answered with success: true`);
  return exitCode === 0
    ? warn(`${what} was answered with success: false, but the exit code is 0; other hosts may go by that`)
    : pass("refused with success: false, and by the exit code");
}
