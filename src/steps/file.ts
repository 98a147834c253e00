import { maxCheckedBytes } from "../base/limits.ts";
import { codeOf, McpvalsError, messageOf } from "../base/error.ts";
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { lstat, open, rename, rm, rmdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { checkText, excerpt } from "../expect/expectations.ts";
import type { FileStep } from "../model/step.ts";
import type { Check } from "../model/event.ts";
import { makeFolder } from "../base/files.ts";
import type { StepAttempt, StepContext, StepRunner } from "./step-runner.ts";
import { isInWorkspace, orAbsent, resolveTaskPath } from "./task-path.ts";

type Action<K extends FileStep["action"]["kind"]> = Extract<FileStep["action"], { kind: K }>;

const verbs = { create: "write", remove: "remove", check: "check" } as const;

/** Creates, removes or checks a file. */
export const fileStep: StepRunner<FileStep> = {
  input({ path, action }) {
    const { kind } = action;
    if (kind !== "create") return { path, action: kind };
    return { path, action: kind, mode: modeText(action.mode), content: excerpt(action.content) };
  },
  async run(step, context) {
    const { path, action } = step;
    try {
      if (action.kind === "create") return await create(path, action, context);
      return action.kind === "remove" ? await remove(path, context) : await check(step, action, context);
    } catch (cause) {
      context.signal.throwIfAborted();
      if (cause instanceof McpvalsError) throw cause;
      const reason = messageOf(cause);
      throw new McpvalsError("step/cannot-run", `cannot ${verbs[action.kind]} ${path}: ${reason}`, { cause });
    }
  },
};

function sideEffect(name: string, expected: string, message: string): Check {
  return { name, passed: true, expected, actual: expected, message };
}

async function create(
  path: string,
  { content, mode }: Action<"create">,
  { trial, signal }: StepContext,
): Promise<StepAttempt> {
  const target = await resolveTaskPath(path, trial, { forWriting: true });
  const bytes = Buffer.from(content, "utf8");
  await writeWhole(target, bytes, mode, signal);
  const size = bytes.length === 1 ? "1 byte" : `${bytes.length} bytes`;
  const check = sideEffect("written", modeText(mode), `${size} written to ${path}`);
  return { kind: "checked", checks: [check], values: { content } };
}

async function remove(path: string, { trial }: StepContext): Promise<StepAttempt> {
  const target = await resolveTaskPath(path, trial, { forWriting: true });
  const found = await orAbsent(lstat(target));
  const isFolder = found?.isDirectory() === true;
  // Whole folders are removed only in the workspace, which is the trial's own.
  if (isFolder && !(await isInWorkspace(target, trial))) {
    await rmdir(target).catch((cause: unknown) => {
      const code = codeOf(cause);
      if (code !== "ENOTEMPTY" && code !== "EEXIST") throw cause;
      const message = `cannot remove ${path}: it is a folder with something in it, outside the workspace`;
      const hint = "Remove its files one by one, or work in {workspace}, where whole folders may be removed.";
      throw new McpvalsError("step/cannot-run", message, { hint, cause });
    });
  } else if (found !== undefined) await rm(target, { recursive: isFolder, force: true });
  const message = found === undefined ? `${path} did not exist` : `${path} is removed`;
  return { kind: "checked", checks: [sideEffect("removed", "nothing", message)] };
}

/** Permission bits as octal digits: `0644`. */
function modeText(mode: number): string {
  return mode.toString(8).padStart(4, "0");
}

/**
 * Checks what is at a path, following links. Only a regular file counts as a file. The content is read if it is checked
 * or used by outputs.
 */
async function check(
  { path, outputs = {} }: FileStep,
  { exists, mode, content: expected }: Action<"check">,
  { trial, signal }: StepContext,
): Promise<StepAttempt> {
  const target = await resolveTaskPath(path, trial, { forWriting: false });
  const found = await orAbsent(stat(target));
  const wanted = exists ? "a file" : "nothing";
  const actual = kindOf(found);
  const passed = actual === wanted;
  let message = passed ? `there is ${actual}` : `expected ${wanted}, found ${actual}`;
  if (!passed && exists && found === undefined) message = "the file does not exist";
  const existence = { name: "exists", passed, expected: wanted, actual, message };
  const expectsMore = mode !== undefined || expected !== undefined;
  if (found?.isFile() !== true) {
    // If its content is checked, a missing file is no evidence.
    if (!passed)
      return {
        kind: "checked",
        checks: [expectsMore ? { ...existence, evidence: "pathMissing" } : existence],
      };
    const hasFolder = (await orAbsent(stat(dirname(target)))) !== undefined;
    const doubt = "the folder of the file does not exist either";
    const checks: Check[] = [hasFolder ? existence : { ...existence, doubt }];
    const message = "there is no file whose content or mode could be checked";
    if (expectsMore)
      checks.push({ name: "file", passed: false, expected: "a file", actual: "nothing", message });
    return { kind: "checked", checks };
  }
  const checks: Check[] = [existence];
  if (mode !== undefined) {
    const [bits, wantedBits] = [modeText(found.mode & 0o7777), modeText(mode)];
    const isSame = bits === wantedBits;
    const text = `the mode is ${bits}${isSame ? "" : `, expected ${wantedBits}`}`;
    checks.push({ name: "mode", passed: isSame, expected: wantedBits, actual: bits, message: text });
  }
  const isUsed = Object.values(outputs).some((template) => /\{\s*content\b/.test(template));
  if (expected === undefined && !isUsed) return { kind: "checked", checks };
  const content = await readText(target, signal);
  if (expected !== undefined) checks.push(...checkText("content", expected, content));
  return { kind: "checked", checks, values: { content } };
}

function kindOf(found: Awaited<ReturnType<typeof stat>> | undefined): string {
  if (found === undefined) return "nothing";
  if (found.isFile()) return "a file";
  if (found.isDirectory()) return "a folder";
  if (found.isFIFO()) return "a pipe";
  return found.isSocket() ? "a socket" : "a device";
}

/** Throws `step/cannot-run` for a file that is too large or not UTF-8, errors of the file system, and the signal's reason. */
async function readText(path: string, signal: AbortSignal): Promise<string> {
  // Without this flag, opening a pipe would block forever. Windows has no such flag.
  await using file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  const chunks: Buffer[] = [];
  for await (const chunk of file.createReadStream({ end: maxCheckedBytes, signal, autoClose: false }))
    chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  if (bytes.length > maxCheckedBytes)
    throw new McpvalsError(
      "step/cannot-run",
      `${path} is larger than ${maxCheckedBytes} bytes, too large to be checked`,
      {
        hint: "Check a part of it with a command step, such as head, tail or grep.",
      },
    );
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new McpvalsError("step/cannot-run", `${path} is not text: it is not valid UTF-8`, {
      cause,
      hint: "Only texts can be checked; compare a hash of other files with a command step.",
    });
  }
}

/**
 * Writes a file and its missing folders; `mode` are the permission bits, whatever the process's umask is. The file, or a link at
 * its path, is replaced at once: readers never see a part of it.
 */
async function writeWhole(path: string, bytes: Buffer, mode: number, signal: AbortSignal): Promise<void> {
  const folder = dirname(path);
  makeFolder(folder);
  const draft = join(folder, `.mcpvals-${randomUUID()}`);
  try {
    await using file = await open(draft, "wx", 0o600);
    await file.writeFile(bytes, { signal });
    await file.chmod(mode);
    signal.throwIfAborted();
    await file.close();
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
