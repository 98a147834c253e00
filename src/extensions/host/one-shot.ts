import { maxMessageBytes } from "../../base/limits.ts";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { McpvalsError } from "../../base/error.ts";
import { type OperationContext, type OperationResult, readOperationResult } from "../protocol.ts";
import type { JsonObject } from "../../base/json.ts";
import { untilAborted } from "../../process/deadline.ts";
import { makeTemporaryFolder } from "../../process/folders.ts";
import { ByteStore } from "../../process/program-output.ts";
import type { ProcessExit } from "../../process/spawn.ts";
import { ExtensionProcess, formatExit, parseAnswer, type ProcessStart } from "./extension-process.ts";

/** One operation, with checked arguments. */
interface OneShotCall {
  readonly operation: string;
  readonly args: JsonObject;
  /** Settings of the extension; left out of the input when there are none. */
  readonly config: JsonObject;
  readonly context: OperationContext;
}

/**
 * Runs one operation of a program that is started for each: `PROGRAM check NAME --input FILE` in verify, `action` in the
 * other phases. `onStart` is called once the process exists. Throws McpvalsError `extension/start-failed`, `protocol`,
 * `crashed`, `answer-too-large` and `limit`, and the signal's reason; the program has ended then, with all that it started.
 */
export async function runOneShot(
  start: Omit<ProcessStart, "protocol">,
  call: OneShotCall,
  signal: AbortSignal,
  onStart?: (process: ExtensionProcess) => void,
): Promise<OperationResult> {
  const folder = await makeTemporaryFolder("input");
  let process: ExtensionProcess | undefined;
  try {
    const words = await writeCall(folder, call);
    signal.throwIfAborted();
    process = await startOneShot({ ...start, args: words }, folder);
    onStart?.(process);
    const output = await untilAborted(readOutput(process), signal);
    return readResult(output, process, `${words[0]} ${call.operation}`);
  } finally {
    await process?.kill();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Starts a program, which may read the folder of its input. It gets nothing on stdin. Throws as `ExtensionProcess.start`. */
export async function startOneShot(
  start: Omit<ProcessStart, "protocol">,
  folder: string,
): Promise<ExtensionProcess> {
  const place = { ...start.place, read: [...start.place.read, folder] };
  const process = await ExtensionProcess.start({ ...start, place, protocol: "one-shot" });
  process.program.stdin.end();
  process.expectEnd();
  return process;
}

/** Writes the input of a call into a folder of its own, and gives the arguments of the program. */
export async function writeCall(
  folder: string,
  { operation, args, config, context }: OneShotCall,
): Promise<readonly [verb: string, ...string[]]> {
  const file = join(folder, "input.json");
  const settings = Object.keys(config).length === 0 ? {} : { config };
  await writeFile(file, JSON.stringify({ args, context, ...settings }), { mode: 0o600 });
  return [context.phase === "verify" ? "check" : "action", operation, "--input", file];
}

interface OneShotOutput {
  readonly stdout: Buffer;
  readonly exit: ProcessExit;
}

/** Reads stdout until the program has ended. Rejects with `extension/answer-too-large` as soon as it is too much. */
export function readOutput(process: ExtensionProcess): Promise<OneShotOutput> {
  const answer = new ByteStore();
  return new Promise((resolve, reject) => {
    const take = (chunk: Buffer): void => {
      if (answer.length + chunk.length <= maxMessageBytes) return answer.push(chunk);
      answer.clear();
      process.program.stdout.off("data", take);
      const message = `wrote more than ${maxMessageBytes / 1024 / 1024} MiB on stdout`;
      reject(process.error("extension/answer-too-large", message));
    };
    process.program.stdout.on("data", take);
    const end = (exit: ProcessExit): void => {
      process.program.stdout.off("data", take);
      resolve({ stdout: answer.take(), exit });
    };
    void process.ended.then(end);
  });
}

/** Reads the result of a call. Throws McpvalsError `extension/crashed` and `extension/protocol`. */
export function readResult(
  { stdout, exit }: OneShotOutput,
  process: ExtensionProcess,
  call: string,
): OperationResult {
  const broken = (problem: string): McpvalsError =>
    process.error("extension/protocol", `broke the protocol in ${call}: ${problem}`);
  const parsed = parseAnswer(stdout);
  if (parsed.kind === "excessive") throw broken(`its answer ${parsed.problem}`);
  const text = stdout.toString("utf8").trim();
  if (parsed.kind === "not-json" && text !== "") process.invalidLine(Buffer.from(text));
  if (exit.exitCode === null || (parsed.kind === "not-json" && exit.exitCode !== 0))
    throw process.error("extension/crashed", `${formatExit(exit)} before it had answered ${call}`);
  if (parsed.kind === "not-json")
    throw broken(`its stdout is ${text === "" ? "empty" : "not one JSON value"}`);
  if (parsed.kind === "duplicate-key") throw broken(`its answer ${parsed.problem}`);
  const read = readOperationResult(parsed.value);
  if (!read.ok) throw broken(read.message);
  // Some programs report a failure only by their exit code.
  if (read.result.success && exit.exitCode !== 0) throw broken(`success is true, and it ${formatExit(exit)}`);
  return read.result;
}
