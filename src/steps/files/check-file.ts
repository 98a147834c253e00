import { constants, type Stats } from "node:fs";
import { open, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { checkText } from "../../core/checks/text-expectation.ts";
import { McpvalsError } from "../../core/errors/error.ts";
import type { FileExpectation } from "../../core/formats/step.ts";
import type { Check } from "../../core/trace/events.ts";
import { orAbsent } from "./or-absent.ts";

/** Largest file whose content is looked at, in bytes. */
const mostBytes = 10_000_000;

export interface CheckFileOptions {
  /** Whether the content is wanted also when nothing is expected of it. */
  readonly readsContent: boolean;
  readonly signal: AbortSignal;
}

export interface CheckedFile {
  readonly checks: readonly Check[];
  /** Absent where there is no file, and when it was not wanted. */
  readonly content?: string;
}

/**
 * Looks at what is at an absolute path, links followed. Only a regular file counts as a file. The content is read when
 * it is wanted; then a file that is larger than 10 MB or no UTF-8 throws `step/cannot-run`. Besides throws what the file
 * system throws, and the signal's reason.
 */
export async function checkFile(
  path: string,
  expectation: FileExpectation,
  { readsContent, signal }: CheckFileOptions,
): Promise<CheckedFile> {
  const { exists, mode, content: expected } = expectation;
  const found = await orAbsent(stat(path));
  const existence = existenceCheck(exists, found);
  if (found?.isFile() !== true) {
    const weighed = { ...existence, ...(await worthOf(existence, path, expectation)) };
    return { checks: [weighed, ...impossible(existence.passed, expectation)] };
  }
  const checks = [existence, ...(mode === undefined ? [] : [modeCheck(mode, found)])];
  if (expected === undefined && !readsContent) return { checks };
  const content = await readText(path, signal);
  return {
    content,
    checks: expected === undefined ? checks : [...checks, ...checkText("content", expected, content)],
  };
}

/** Permission bits as they are usually written: `0644`. */
export function modeText(mode: number): string {
  return mode.toString(8).padStart(4, "0");
}

function existenceCheck(exists: boolean, found: Stats | undefined): Check {
  const expected = exists ? "a file" : "nothing";
  const actual = kindOf(found);
  const passed = actual === expected;
  const message = passed ? `there is ${actual}` : `there is ${actual}, expected ${expected}`;
  return { name: "exists", passed, expected, actual, message };
}

/** What it is worth that there is no file: nothing where its content was to be looked at, little where its folder is missing too. */
async function worthOf(
  { passed }: Check,
  path: string,
  { mode, content }: FileExpectation,
): Promise<Pick<Check, "unplaced" | "doubt">> {
  if (!passed) return mode === undefined && content === undefined ? {} : { unplaced: true };
  const folder = await orAbsent(stat(dirname(path)));
  return folder === undefined ? { doubt: "not even the folder that the file would be in is there" } : {};
}

function kindOf(found: Stats | undefined): string {
  if (found === undefined) return "nothing";
  if (found.isFile()) return "a file";
  if (found.isDirectory()) return "a folder";
  if (found.isFIFO()) return "a pipe";
  return found.isSocket() ? "a socket" : "a device";
}

/** What is expected of a file besides its absence cannot hold. */
function impossible(isAsExpected: boolean, { mode, content }: FileExpectation): Check[] {
  if (!isAsExpected || (mode === undefined && content === undefined)) return [];
  const message = "nothing is there that could have a content or a mode";
  return [{ name: "file", passed: false, expected: "a file", actual: "nothing", message }];
}

function modeCheck(mode: number, found: Stats): Check {
  const expected = modeText(mode);
  const actual = modeText(found.mode & 0o7777);
  const passed = actual === expected;
  const message = `the mode is ${actual}${passed ? "" : `, expected ${expected}`}`;
  return { name: "mode", passed, expected, actual, message };
}

async function readText(path: string, signal: AbortSignal): Promise<string> {
  const bytes = await readBytes(path, signal);
  if (bytes.length > mostBytes)
    throw new McpvalsError(
      "step/cannot-run",
      `${path} is larger than ${mostBytes} bytes, too large to look at`,
      {
        hint: "Look at a part of it with a command step, such as head, tail or grep.",
      },
    );
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new McpvalsError("step/cannot-run", `${path} is no text: it is not UTF-8`, {
      cause,
      hint: "Only texts can be looked at; check a hash of other files with a command step.",
    });
  }
}

/** Reads one byte more than is allowed at most. */
async function readBytes(path: string, signal: AbortSignal): Promise<Buffer> {
  // A pipe that took the file's place would else be waited for without end. Windows has no such flag.
  const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
  await using file = await open(path, flags);
  const chunks: Buffer[] = [];
  for await (const chunk of file.createReadStream({ end: mostBytes, signal, autoClose: false })) {
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}
