import { constants } from "node:fs";
import { access, open, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import type { ProgramText } from "../../core/formats/idle-program.ts";
import type { ScriptStep } from "../../core/formats/step.ts";
import { interpreterOf } from "../../process/environment.ts";
import { makeTemporaryFolder } from "../../process/folders.ts";
import { shellFor } from "./shell-for.ts";
import type { TrialContext } from "../step-runner.ts";
import { resolveTaskPath } from "../files/task-path.ts";

/** Enough for any first line, and for the whole of a script that is short enough to be looked into. */
const headLength = 16_384;

/** How a script is started. Disposing of it removes what was made for that. */
export interface ScriptLaunch extends AsyncDisposable {
  readonly command: string;
  /** Without the arguments of the step. */
  readonly args: readonly string[];
  readonly cwd: string;
  /** The likeliest reason for its failure, where how it is started suggests one. */
  readonly remark?: string;
  /** What it runs, where that is known as a whole. */
  readonly program?: ProgramText;
}

type Env = Readonly<Record<string, string>>;

/**
 * Makes a script ready to be started. A file is started itself when it is executable, else by the interpreter that its
 * first line names, else by the shell; its mode is left alone. A text becomes a temporary file outside the task's folder.
 * Throws McpvalsError `step/cannot-run` when the file cannot be read, and what `resolveTaskPath` throws.
 */
export async function prepareScript(
  { source, workdir }: ScriptStep,
  trial: TrialContext,
  env: Env,
): Promise<ScriptLaunch> {
  if ("inline" in source) return prepareText(source.inline, trial, env);
  const file = await resolveTaskPath(source.file, trial, { forWriting: false });
  const cwd = workdir === "script" ? dirname(file) : trial.dir;
  const launch = { ...(await launchFile(file, env)), cwd };
  return { ...launch, [Symbol.asyncDispose]: () => Promise.resolve() };
}

async function prepareText(text: string, { dir }: TrialContext, env: Env): Promise<ScriptLaunch> {
  const trimmed = text.trimStart();
  const folder = await makeTemporaryFolder("script");
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true, maxRetries: 5 });
  try {
    const file = join(folder, "script");
    await writeFile(file, trimmed.startsWith("#!") ? trimmed : text, { mode: 0o600 });
    const program = { text };
    return { ...interpreted(file, trimmed, env), program, cwd: dir, [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function launchFile(
  file: string,
  env: Env,
): Promise<Pick<ScriptLaunch, "command" | "args" | "remark" | "program">> {
  const head = await readHead(file);
  const known = head.length < headLength ? { program: { text: head } } : {};
  // What has neither a first line for the system nor a program's bytes can only be started by a shell.
  const startsItself = head.startsWith("#!") || head.includes("\0");
  if (startsItself && (await isExecutable(file))) return { command: file, args: [], ...known };
  const launch = { ...interpreted(file, head, env), ...known };
  return startsItself || isNamedAsShell(file) ? launch : { ...launch, remark: noFirstLine };
}

const noFirstLine =
  "The file has no #! line, so the shell ran it; begin it with #!/usr/bin/env python3, say.";

function isNamedAsShell(file: string): boolean {
  return /\.(?:sh|bash|zsh|ksh|dash)$/i.test(file);
}

function interpreted(file: string, head: string, env: Env): Pick<ScriptLaunch, "command" | "args"> {
  const named = interpreterOf(head) ?? { command: shellFor(env), args: [] };
  return { command: named.command, args: [...named.args, file] };
}

async function readHead(file: string): Promise<string> {
  try {
    // A pipe that took the file's place would else be waited for without end. Windows has no such flag.
    await using handle = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    if (!(await handle.stat()).isFile()) throw new Error("it is no file");
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(headLength), 0, headLength);
    return buffer.toString("latin1", 0, bytesRead);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("step/cannot-run", `the script cannot be read: ${reason}`, {
      hint: "Check the script's path, which starts from the task's folder.",
      cause,
    });
  }
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false; // then its interpreter is started with it
  }
}
