import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import {
  type OperationContext,
  type OperationResult,
  readOperationResult,
} from "../../core/formats/extension/protocol.ts";
import { jsonExcess, previewJson, repeatedKey } from "../../core/formats/read-json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { ByteStore } from "../../process/program-output.ts";
import { untilAborted } from "../../process/deadline.ts";
import type { ProcessExit } from "../../process/spawn.ts";
import { makeTemporaryFolder } from "../../process/folders.ts";
import { deepestAnswer, excessText, isTooDeep, largestAnswer } from "./rpc-message.ts";
import { ExtensionProcess, howItEnded, type ProcessStart } from "./extension-process.ts";

export interface OneShotStart extends Omit<ProcessStart, "protocol" | "args"> {
  /** Hears of the process as soon as there is one. */
  readonly onStart?: (process: ExtensionProcess) => void;
}

/** One operation, with arguments that were checked. */
export interface OneShotCall {
  readonly operation: string;
  readonly args: JsonObject;
  /** Settings of the extension; the program is told them when there are any. */
  readonly config: JsonObject;
  readonly context: OperationContext;
}

/**
 * Runs one operation of a program that is started for each: `PROGRAM check NAME --input FILE` in verify, `action` in the
 * other phases. Throws McpvalsError `extension/start-failed`, `protocol`, `crashed`, `answer-too-large` and `limit`, and the
 * signal's reason; the program has ended then, with all that it started.
 */
export async function runOneShot(
  { onStart, place, ...start }: OneShotStart,
  call: OneShotCall,
  signal: AbortSignal,
): Promise<OperationResult> {
  await using input = await writeInput(call);
  signal.throwIfAborted();
  const kind = call.context.phase === "verify" ? "check" : "action";
  const process = await ExtensionProcess.start({
    ...start,
    place: { ...place, read: [...place.read, input.folder] },
    protocol: "one-shot",
    args: [kind, call.operation, "--input", input.file],
  });
  onStart?.(process);
  try {
    process.stdin.end();
    process.expectEnd();
    const { bytes, exit } = await untilAborted(readAnswer(process), signal);
    return resultOf(bytes, { exit, process, asked: `${kind} ${call.operation}` });
  } finally {
    await process.kill();
  }
}

/** The file that tells the program what to do, in a folder that nobody else may look into. */
async function writeInput({
  args,
  config,
  context,
}: OneShotCall): Promise<AsyncDisposable & { readonly folder: string; readonly file: string }> {
  const folder = await makeTemporaryFolder("input");
  const file = join(folder, "input.json");
  const settings = Object.keys(config).length === 0 ? {} : { config };
  await writeFile(file, JSON.stringify({ args, context, ...settings }), { mode: 0o600 });
  return {
    folder,
    file,
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true, maxRetries: 3 }),
  };
}

interface Answer {
  readonly bytes: Buffer;
  readonly exit: ProcessExit;
}

/** Reads stdout until the program has ended. Rejects as soon as it is too much. */
function readAnswer(process: ExtensionProcess): Promise<Answer> {
  const answer = new ByteStore();
  return new Promise((resolve, reject) => {
    const take = (chunk: Buffer): void => {
      if (answer.length + chunk.length <= largestAnswer) return answer.push(chunk);
      answer.clear();
      process.stdout.off("data", take);
      const message = `wrote more than ${largestAnswer / 1024 / 1024} MiB on stdout`;
      reject(process.error("extension/answer-too-large", message));
    };
    process.stdout.on("data", take);
    const end = (exit: ProcessExit): void => {
      process.stdout.off("data", take);
      resolve({ bytes: answer.take(), exit });
    };
    void process.ended.then(end);
  });
}

interface Asked {
  readonly exit: ProcessExit;
  readonly process: ExtensionProcess;
  readonly asked: string;
}

function resultOf(bytes: Buffer, { exit, process, asked }: Asked): OperationResult {
  const broken = (problem: string): McpvalsError =>
    process.error("extension/protocol", `broke the protocol in ${asked}: ${problem}`);
  const excess = jsonExcess(bytes, { levels: deepestAnswer });
  if (excess !== undefined) throw broken(`its answer ${excessText[excess]}`);
  const text = bytes.toString("utf8");
  const value = parse(text);
  if (value === undefined && text.trim() !== "") process.output.invalidLine(Buffer.from(text.trim()));
  if (exit.exitCode === null || (value === undefined && exit.exitCode !== 0)) {
    throw process.error("extension/crashed", `${howItEnded(exit)} before it had answered ${asked}`);
  }
  if (value === undefined)
    throw broken(`its stdout is ${text.trim() === "" ? "empty" : "not one JSON value"}`);
  if (isTooDeep(value)) throw broken("its answer is nested too deeply");
  const twin = repeatedKey(text);
  if (twin !== undefined) throw broken(`its answer has the key ${previewJson(twin)} twice`);
  const read = readOperationResult(value);
  if (!read.ok) throw broken(read.message);
  // Some programs use the exit code only for what is broken.
  if (read.result.success && exit.exitCode !== 0) throw broken(`success is true, and it ${howItEnded(exit)}`);
  return read.result;
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined; // told by who knows how the program ended
  }
}
