import { stat } from "node:fs/promises";
import { McpvalsError } from "../core/errors/error.ts";
import { idlenessOf, type ProgramText } from "../core/formats/idle-program.ts";
import type { JsonObject } from "../core/formats/model.ts";
import type { StepBase } from "../core/formats/step.ts";
import { hasShellValues, isShell } from "../core/templates/shell-line.ts";
import type { Check } from "../core/trace/events.ts";
import { abortAfter, untilAborted } from "../process/deadline.ts";
import { defaultShell } from "../process/environment.ts";
import { type KeptText, ProgramOutput } from "../process/program-output.ts";
import { type ManagedProcess, type ProcessExit, spawnProcess } from "../process/spawn.ts";
import type { StepContext } from "./step-runner.ts";

/** How long pipes that a background process holds are read after the program's end, in milliseconds. */
const drainMs = 200;
/** What is killed has so long to end by itself after SIGTERM, in milliseconds. */
const termMs = 200;

export interface Program {
  /** What errors call it, such as `the shell`. */
  readonly role: string;
  /** What the reader can do when it cannot be started. */
  readonly hint: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute path. */
  readonly cwd: string;
  /** The complete environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Absent: its stdin is empty. */
  readonly stdin?: string;
  /** Further texts that decide what it does, such as that of its script. */
  readonly texts?: readonly string[];
}

/** How a program went. */
export interface ProgramRun extends ProcessExit {
  readonly stdout: KeptText;
  readonly stderr: KeptText;
  /** Both in the order in which they came. */
  readonly together: string;
}

/**
 * Runs one program for a step, until it has ended itself. What it leaves running in the background goes on, and becomes
 * the trial's. When the step's time is up or the signal aborts, everything is killed. Throws McpvalsError
 * `step/cannot-run` when it cannot be started, `step/timeout` after `timeoutMs`, and the signal's reason.
 */
export async function runProgram(
  program: Program,
  { id, timeoutMs }: Pick<StepBase, "id" | "timeoutMs">,
  { signal, trial }: Pick<StepContext, "signal" | "trial">,
): Promise<ProgramRun> {
  const output = new ProgramOutput();
  using limit = abortAfter(timeoutMs, () => timeUp(id, timeoutMs, output), signal);
  await trial.releasePorts(textsOf(program));
  limit.signal.throwIfAborted();
  const child = await start(program);
  try {
    output.attach(child);
    child.stdin.end(program.stdin ?? "");
    const exit = await untilAborted(child.exited, limit.signal);
    await untilAborted(output.settle(drainMs), limit.signal);
    output.stop();
    const { stdout, stderr, together } = output;
    if (!(await child.release())) trial.adopt(child);
    return { ...exit, stdout, stderr, together };
  } catch (error) {
    await child.stop({ stdinMs: 0, termMs });
    throw error;
  }
}

function textsOf({ command, args, env, stdin = "", texts = [] }: Program): string[] {
  return [command, ...args, ...Object.values(env), stdin, ...texts];
}

async function start(program: Program): Promise<ManagedProcess> {
  await checkFolder(program.cwd);
  try {
    return await spawnProcess(program);
  } catch (error) {
    if (!(error instanceof McpvalsError) || error.code !== "server/spawn-failed") throw error;
    throw new McpvalsError("step/cannot-run", `${program.role} cannot be started: ${error.message}`, {
      hint: hintOf(error.cause) ?? program.hint,
      cause: error,
    });
  }
}

function hintOf(cause: unknown): string | undefined {
  switch (cause instanceof Error && "code" in cause ? cause.code : undefined) {
    case "E2BIG":
      return "The command line is too long for this system: give long texts on stdin, or in a file.";
    case "ERR_INVALID_ARG_VALUE":
      return "No argument and no variable of a program can hold a NUL character: give such a text on stdin, or in a file.";
    default:
      return undefined;
  }
}

async function checkFolder(cwd: string): Promise<void> {
  const problem = await stat(cwd).then(
    (found) => (found.isDirectory() ? undefined : { says: "is not a folder", cause: undefined }),
    (cause: unknown) => ({ says: "is not there", cause }),
  );
  if (problem === undefined) return;
  throw new McpvalsError("step/cannot-run", `the folder to run in ${problem.says}: ${cwd}`, {
    hint: "Check workdir: it starts from the task's folder, and has to be there before the step.",
    cause: problem.cause,
  });
}

function timeUp(id: string, timeoutMs: number, output: ProgramOutput): McpvalsError {
  const detail = shownOutput(output);
  const details = detail === "" ? {} : { detail };
  return new McpvalsError("step/timeout", `step ${id}: it took longer than ${timeoutMs} ms`, details);
}

const shownCharacters = 300;

/** Exit codes with which shells tell that they could not run something. */
const notRun: Readonly<Record<number, string>> = {
  126: "a program could not be run",
  127: "a program was not found",
};
/** Exit codes that mean yes or no. With others, programs such as grep, test and curl report that they could not check. */
const answers: readonly (number | null)[] = [0, 1];

export interface ExitOptions {
  readonly expected: number;
  /** What it wrote, shown beside the exit code where there is something. */
  readonly evidence: JsonObject;
  /** Its text, where that is known. */
  readonly program: ProgramText | undefined;
  /** Whether more than the exit code is looked at: then a wrong one says no more than that it could not be. */
  readonly isOutputRead?: boolean;
}

/**
 * Checks how a program ended. One that ended otherwise than with 0, 1 or the expected code has looked at nothing; one that
 * cannot but succeed has told nothing.
 */
export function exitCheck(run: ProgramRun, options: ExitOptions): Check {
  const { expected, evidence, program, isOutputRead = false } = options;
  const { exitCode, signal } = run;
  const passed = exitCode === expected;
  const ended = exitCode === null ? { signal } : { exitCode };
  const shown = Object.fromEntries(Object.entries(evidence).filter(([, text]) => text !== ""));
  const actual = exitCode !== null && Object.keys(shown).length === 0 ? exitCode : { ...ended, ...shown };
  const check = { name: "exit code", passed, expected, actual, message: messageOf(run, expected) };
  if (!passed) return answers.includes(exitCode) && !isOutputRead ? check : { ...check, untried: true };
  const isVoid = expected === 0 && program !== undefined && idlenessOf(program) !== undefined;
  return isVoid ? { ...check, acted: true } : check;
}

function messageOf({ exitCode, signal, stdout, stderr }: ProgramRun, expected: number): string {
  if (exitCode === expected) return `it exited with ${exitCode}`;
  const why = notRun[exitCode ?? 0];
  const meaning = why === undefined ? "" : ` (${why})`;
  const how =
    exitCode === null ? `it was ended by ${signal ?? "a signal"}` : `it exited with ${exitCode}${meaning}`;
  const said = tailOf(stderr.text, shownCharacters) || tailOf(stdout.text, shownCharacters);
  return `${how}, expected ${expected}${said === "" ? "" : `: ${said}`}`;
}

/** Shown of the end of a text, in characters. */
const tailCharacters = 2000;

/** The end of a text, without the line ends after it. */
export function tailOf(text: string, characters: number = tailCharacters): string {
  const trimmed = text.trimEnd();
  return trimmed.length <= characters ? trimmed : `…${trimmed.slice(-characters)}`;
}

/** The ends of what a program wrote, for the detail of an error; empty when it wrote nothing. */
export function shownOutput(output: { readonly stdout: KeptText; readonly stderr: KeptText }): string {
  return (["stdout", "stderr"] as const)
    .map((stream) => [stream, tailOf(output[stream].text)] as const)
    .filter(([, tail]) => tail !== "")
    .map(([stream, tail]) => `${stream}:\n${tail}`)
    .join("\n");
}

/** A text without the line ends after its last line. */
export function withoutLineEnd(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end -= text[end - 2] === "\r" ? 2 : 1;
  return text.slice(0, end);
}

/**
 * The shell for a text, by default that of the environment. Throws McpvalsError `step/cannot-run` for one that does not
 * read variables as the text has them, when it has any.
 */
export function shellFor(env: Readonly<Record<string, string>>, named?: string): string {
  const shell = named ?? defaultShell(env);
  if (!hasShellValues(env) || isShell(shell)) return shell;
  const message = `a value from outside stands in a text for ${shell}, and only for sh, bash, dash, zsh, ksh, fish and their like is it known how`;
  throw new McpvalsError("step/cannot-run", message, {
    hint: "Name one of these shells with `shell`, or pass the value in the step's env.",
  });
}
