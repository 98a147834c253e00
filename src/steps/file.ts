import { randomUUID } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, rename, rm, rmdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { excerpt } from "../core/checks/excerpt.ts";
import { expandTextExpectation } from "../core/checks/expand-expectation.ts";
import { checkText } from "../core/checks/text-expectation.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { JsonObject } from "../core/formats/model.ts";
import type { FileExpectation, FileStep } from "../core/formats/step.ts";
import type { Expander } from "../core/templates/expand.ts";
import { inFilePath } from "../core/templates/places.ts";
import type { Check } from "../core/trace/events.ts";
import { makeFolder } from "../files/make-folder.ts";
import type { StepAttempt, StepContext, StepRunner } from "./step-runner.ts";
import { isInWorkspace, orAbsent, resolveTaskPath } from "./task-path.ts";

/** Makes, removes or looks at a file. */
export const fileStep: StepRunner<FileStep> = {
  type: "file",
  expand: (step, expander) => ({
    ...step,
    path: expander.placed(step.path, inFilePath),
    action: expandAction(step.action, expander),
  }),
  input: ({ path, action }) => ({ path, action: action.kind, ...inputOf(action) }),
  async run(step, context) {
    try {
      return await act(step, context);
    } catch (cause) {
      context.signal.throwIfAborted();
      if (cause instanceof McpvalsError) throw cause;
      const reason = cause instanceof Error ? cause.message : String(cause);
      const doing = `${verbs[step.action.kind]} ${step.path}`;
      throw new McpvalsError("step/cannot-run", `cannot ${doing}: ${reason}`, { cause });
    }
  },
};

const verbs = { create: "write", remove: "remove", check: "look at" } as const;

function expandAction(action: FileStep["action"], expander: Expander): FileStep["action"] {
  switch (action.kind) {
    case "create":
      return { ...action, content: expander.text(action.content) };
    case "remove":
      return action;
    case "check":
      return action.content === undefined
        ? action
        : { ...action, content: expandTextExpectation(action.content, expander) };
  }
}

function inputOf(action: FileStep["action"]): JsonObject {
  if (action.kind !== "create") return {};
  return { mode: modeText(action.mode), content: excerpt(action.content) };
}

function act(step: FileStep, context: StepContext): Promise<StepAttempt> {
  switch (step.action.kind) {
    case "create":
      return create(step.path, step.action, context);
    case "remove":
      return remove(step.path, context);
    case "check":
      return check(step, step.action, context);
  }
}

async function create(
  path: string,
  { content, mode }: Extract<FileStep["action"], { kind: "create" }>,
  { trial, signal }: StepContext,
): Promise<StepAttempt> {
  const target = await resolveTaskPath(path, trial, { forWriting: true });
  const bytes = await writeFileWhole(target, content, { mode, signal });
  const message = `${bytes === 1 ? "1 byte" : `${bytes} bytes`} written to ${path}`;
  return {
    kind: "checked",
    checks: [
      {
        name: "written",
        passed: true,
        expected: modeText(mode),
        actual: modeText(mode),
        message,
        acted: true,
      },
    ],
    values: { content },
  };
}

async function remove(path: string, { trial }: StepContext): Promise<StepAttempt> {
  const target = await resolveTaskPath(path, trial, { forWriting: true });
  const found = await orAbsent(lstat(target));
  if (found?.isDirectory() === true) await removeFolder(target, path, trial);
  else if (found !== undefined) await rm(target, { force: true });
  const message = found === undefined ? `${path} was not there` : `${path} is removed`;
  return {
    kind: "checked",
    checks: [{ name: "removed", passed: true, expected: "nothing", actual: "nothing", message, acted: true }],
  };
}

/** What is in a folder of the task's author goes only one by one; the workspace is the trial's own. */
async function removeFolder(target: string, path: string, trial: StepContext["trial"]): Promise<void> {
  if (await isInWorkspace(target, trial)) return rm(target, { recursive: true, force: true });
  try {
    await rmdir(target);
  } catch (cause) {
    if (!isFull(cause)) throw cause;
    const message = `cannot remove ${path}: it is a folder with something in it, outside the workspace`;
    throw new McpvalsError("step/cannot-run", message, {
      hint: "Remove its files one by one, or work in {workspace}, where whole folders may be removed.",
      cause,
    });
  }
}

function isFull(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOTEMPTY" || code === "EEXIST";
}

async function check(
  step: FileStep,
  expectation: Extract<FileStep["action"], { kind: "check" }>,
  { trial, signal }: StepContext,
): Promise<StepAttempt> {
  const target = await resolveTaskPath(step.path, trial, { forWriting: false });
  const { checks, content } = await checkFile(target, expectation, {
    readsContent: Object.values(step.outputs ?? {}).some((template) => /\{\s*content\b/.test(template)),
    signal,
  });
  return { kind: "checked", checks, ...(content === undefined ? {} : { values: { content } }) };
}

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
async function checkFile(
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
function modeText(mode: number): string {
  return mode.toString(8).padStart(4, "0");
}

function existenceCheck(exists: boolean, found: Stats | undefined): Check {
  const expected = exists ? "a file" : "nothing";
  const actual = kindOf(found);
  const passed = actual === expected;
  const missing = exists && found === undefined ? "the file does not exist" : undefined;
  const message = passed ? `there is ${actual}` : (missing ?? `expected ${expected}, found ${actual}`);
  return { name: "exists", passed, expected, actual, message };
}

/** What a missing file proves: nothing where its content was to be checked, little where its folder is missing too. */
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

/** A file that is absent as expected cannot meet other expectations. */
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
    throw new McpvalsError("step/cannot-run", `${path} is not text: it is not valid UTF-8`, {
      cause,
      hint: "Only texts can be looked at; check a hash of other files with a command step.",
    });
  }
}

/** Reads one byte more than is allowed at most. */
async function readBytes(path: string, signal: AbortSignal): Promise<Buffer> {
  // Without this flag, opening a pipe would block forever. Windows has no such flag.
  const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
  await using file = await open(path, flags);
  const chunks: Buffer[] = [];
  for await (const chunk of file.createReadStream({ end: mostBytes, signal, autoClose: false })) {
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}

export interface WriteOptions {
  /** Permission bits, whatever the process's umask is. */
  readonly mode: number;
  readonly signal: AbortSignal;
}

/**
 * Writes a file and the folders that it is in. Whoever looks at the path sees what was there before or the whole new file
 * with its mode, never a part; what was there, also a link, is replaced. Gives the number of bytes. Throws what the file
 * system throws, and the signal's reason.
 */
async function writeFileWhole(
  path: string,
  content: string,
  { mode, signal }: WriteOptions,
): Promise<number> {
  const folder = dirname(path);
  makeFolder(folder);
  const draft = join(folder, `.mcpvals-${randomUUID()}`);
  const bytes = Buffer.from(content, "utf8");
  try {
    await writeDraft(await open(draft, "wx", 0o600), bytes, { mode, signal });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  return bytes.length;
}

async function writeDraft(file: FileHandle, bytes: Buffer, { mode, signal }: WriteOptions): Promise<void> {
  try {
    await file.writeFile(bytes, { signal });
    await file.chmod(mode);
    signal.throwIfAborted();
  } finally {
    await file.close();
  }
}
