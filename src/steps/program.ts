import { stat } from "node:fs/promises";
import { checkText, withoutLineEnds } from "../expect/expectations.ts";
import { codeOf, McpvalsError } from "../base/error.ts";
import { asList, asObject, isJsonObject, withoutUndefined, type JsonObject } from "../base/json.ts";
import { readJsonText } from "../base/read-json.ts";
import { type CommandStep, type StepBase, type TextExpectation, isIdle } from "../model/step.ts";
import { hasShellValues, isShell } from "../templates/shell.ts";
import type { Check } from "../model/event.ts";
import { abortAfter } from "../process/deadline.ts";
import { defaultShell, mergeEnvironments } from "../process/environment.ts";
import { type KeptText, outputDetails, ProgramOutput, runToEnd, tailOf } from "../process/program-output.ts";
import { type ManagedProcess, type ProcessExit, spawnProcess } from "../process/spawn.ts";
import { type StepContext, type StepRunner, unlessEmpty } from "./step-runner.ts";
import { resolveTaskPath } from "./task-path.ts";

export interface Program {
  /** Its name in errors, such as `the shell`. */
  readonly role: string;
  /** For the error of a program that cannot be started. */
  readonly hint: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute path. */
  readonly cwd: string;
  /** The complete environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Absent: its stdin is empty. */
  readonly stdin?: string | undefined;
  /** Further texts that decide what it does, such as that of its script. */
  readonly texts?: readonly string[] | undefined;
}

/** How a program ended, and what it wrote. */
export interface ProgramRun extends ProcessExit {
  readonly stdout: KeptText;
  readonly stderr: KeptText;
  /** Both in the order in which they came. */
  readonly together: string;
}

/**
 * Runs one program for a step until it ends itself. Processes that it leaves running in the background belong to the trial.
 * When the step's time is up or the signal aborts, everything is killed. Throws McpvalsError
 * `step/cannot-run` when it cannot be started, `step/timeout` after `timeoutMs`, and the signal's reason.
 */
export async function runProgram(
  program: Program,
  { id, timeoutMs }: Pick<StepBase, "id" | "timeoutMs">,
  { signal, trial }: Pick<StepContext, "signal" | "trial">,
): Promise<ProgramRun> {
  const output = new ProgramOutput();
  const timeUp = (): McpvalsError =>
    new McpvalsError(
      "step/timeout",
      `step ${id}: it took longer than ${timeoutMs} ms`,
      outputDetails(output),
    );
  using limit = abortAfter(timeoutMs, timeUp, signal);
  const { command, args, env, stdin = "", texts = [] } = program;
  await trial.releasePorts([command, ...args, ...Object.values(env), stdin, ...texts]);
  limit.signal.throwIfAborted();
  const child = await start(program);
  const adopt = trial.adopt.bind(trial);
  const exit = await runToEnd(child, { output, stdin, signal: limit.signal, adopt });
  const { stdout, stderr, together } = output;
  return { ...exit, stdout, stderr, together };
}

/** Hints for errors of the system in starting a program. */
const startHints: Readonly<Record<string, string>> = {
  E2BIG: "The command line is too long for this system: give long texts on stdin, or in a file.",
  ERR_INVALID_ARG_VALUE:
    "No argument and no variable of a program can hold a NUL character: give such a text on stdin, or in a file.",
};

async function start(program: Program): Promise<ManagedProcess> {
  const { cwd, role } = program;
  const wrongFolder = (problem: string, cause?: unknown): McpvalsError =>
    new McpvalsError("step/cannot-run", `the folder to run in ${problem}: ${cwd}`, {
      hint: "Check workdir: it starts from the task's folder, and must exist before the step.",
      cause,
    });
  const folder = await stat(cwd).catch((cause: unknown) => {
    throw wrongFolder("does not exist", cause);
  });
  if (!folder.isDirectory()) throw wrongFolder("is not a folder");
  try {
    return await spawnProcess(program);
  } catch (error) {
    if (!(error instanceof McpvalsError) || error.code !== "server/spawn-failed") throw error;
    const hint = startHints[codeOf(error.cause) ?? ""] ?? program.hint;
    throw new McpvalsError("step/cannot-run", `${role} cannot be started: ${error.message}`, {
      hint,
      cause: error,
    });
  }
}

const maxShownCharacters = 300;

/** Exit codes of shells that could not run a program. */
const shellErrors: Readonly<Record<number, string>> = {
  126: " (a program could not be run)",
  127: " (a program was not found)",
};
/** Exit codes that mean yes or no. Programs such as grep, test and curl use others when they could not check. */
const verdictCodes: readonly (number | null)[] = [0, 1];

export interface ExitOptions {
  readonly expected: number;
  /** Its output, for `actual`. */
  readonly evidence: JsonObject;
  /** Its text, where that is known. */
  readonly text: string | undefined;
  /** Whether its output is checked too: then a wrong exit code means that the output could not be checked. */
  readonly isOutputRead?: boolean;
}

/**
 * Checks the exit code of a program. A code other than 0, 1 and the expected one is no evidence, nor is the 0 of a program that
 * does nothing.
 */
export function exitCheck(
  { exitCode, signal, stdout, stderr }: ProgramRun,
  { expected, evidence, text, isOutputRead = false }: ExitOptions,
): Check {
  const passed = exitCode === expected;
  const output = Object.fromEntries(Object.entries(evidence).filter(([, text]) => text !== ""));
  const ended = exitCode === null ? { signal } : { exitCode };
  const actual = exitCode !== null && Object.keys(output).length === 0 ? exitCode : { ...ended, ...output };
  const how = exitCode === null ? `was ended by ${signal ?? "a signal"}` : `exited with ${exitCode}`;
  const name = "exit code";
  if (passed) {
    const check = { name, passed, expected, actual, message: `it ${how}` };
    const doesNothing = expected === 0 && text !== undefined && isIdle(text);
    return doesNothing ? { ...check, evidence: "sideEffect" } : check;
  }
  const written = tailOf(stderr.text, maxShownCharacters) || tailOf(stdout.text, maxShownCharacters);
  const message = `it ${how}${shellErrors[exitCode ?? 0] ?? ""}, expected ${expected}${written === "" ? "" : `: ${written}`}`;
  const check = { name, passed, expected, actual, message };
  return verdictCodes.includes(exitCode) && !isOutputRead ? check : { ...check, evidence: "notRun" };
}

/** What the outputs of a step with a program may use. */
export function printedBy({ stdout, stderr, exitCode }: ProgramRun): JsonObject {
  return { stdout: withoutLineEnds(stdout.text), stderr: withoutLineEnds(stderr.text), exitCode };
}

/**
 * The shell for a text, by default that of the environment. Throws McpvalsError `step/cannot-run` for a text with variables and
 * a shell whose syntax of variables is not known.
 */
export function shellFor(env: Readonly<Record<string, string>>, named?: string): string {
  const shell = named ?? defaultShell(env);
  if (!hasShellValues(env) || isShell(shell)) return shell;
  const message = `a text for ${shell} has a value from outside, which only sh, bash, dash, zsh, ksh, fish and similar shells support`;
  throw new McpvalsError("step/cannot-run", message, {
    hint: "Name one of these shells with `shell`, or pass the value in the step's env.",
  });
}

/**
 * Throws McpvalsError `step/broken-script` for a program that exits with 0 although its stdout, or a line of it, is a JSON answer
 * that something failed: only the exit code counts. Not if its last line is the answer that everything passed.
 */
export function refuseUnreadVerdict({ exitCode, stdout }: ProgramRun, role: string, hint: string): void {
  if (exitCode !== 0) return;
  const text = stdout.text.trim();
  const lines = text.split("\n").toReversed();
  const [last = ""] = lines;
  const { value } = readJsonText(last);
  const endsWithPass = isJsonObject(value) && value["passed"] === true && !isFailedAnswer(last);
  if (endsWithPass || ![text, ...lines].some(isFailedAnswer)) return;
  const message = `${role} reports a failure on stdout, but exits with 0: without protocol: json only the exit code counts`;
  throw new McpvalsError("step/broken-script", message, { hint });
}

/** Whether a text is the JSON answer of a script in which something failed. */
function isFailedAnswer(text: string): boolean {
  const value = text.startsWith("{") ? readJsonText(text).value : undefined;
  if (!isJsonObject(value) || !Object.hasOwn(value, "passed")) return false;
  const { passed, checks } = value;
  const failed = asList(checks).some((check) => asObject(check)["passed"] === false);
  return !passed || typeof passed === "string" || failed;
}

/** Runs a command line with the shell and checks its exit code and output. */
export const commandStep: StepRunner<CommandStep> = {
  keepsTime: true,
  input: ({ run, shell, workdir, env, stdin }) =>
    withoutUndefined({ run, shell, workdir, env: unlessEmpty(env), stdin }),
  async run(step, context) {
    const { trial } = context;
    const { run: text, shell, workdir, stdin, expect } = step;
    const env = mergeEnvironments([trial.env, step.env]);
    const program = {
      role: "the shell",
      hint: "Name a shell that is installed and takes -c, with `shell` or the variable SHELL; on Windows sh has to be on PATH.",
      command: shellFor(env, shell),
      args: ["-c", text],
      cwd: workdir === undefined ? trial.dir : await resolveTaskPath(workdir, trial, { forWriting: false }),
      env,
      stdin,
    };
    const done = await runProgram(program, step, context);
    const { stdout, stderr, exitCode } = done;
    if (expect.stdout === undefined) {
      const hint =
        "Use a script step with protocol: json, exit with 1 on failure, or set an expectation on stdout.";
      refuseUnreadVerdict(done, "the command", hint);
    }
    const failed = exitCode !== expect.exitCode;
    const check = exitCheck(done, {
      expected: expect.exitCode,
      evidence: failed ? { stderr: tailOf(stderr.text), stdout: tailOf(stdout.text) } : {},
      text,
      isOutputRead: expect.stdout !== undefined || expect.stderr !== undefined,
    });
    return {
      kind: "checked",
      checks: [
        check,
        ...outputChecks("stdout", expect.stdout, stdout),
        ...outputChecks("stderr", expect.stderr, stderr),
      ],
      values: printedBy(done),
    };
  },
};

/** Truncated output cannot be checked, so an expectation on it is an error. */
function outputChecks(
  name: "stdout" | "stderr",
  expectation: TextExpectation | undefined,
  { text, omitted }: KeptText,
): Check[] {
  if (omitted === 0) return expectation === undefined ? [] : checkText(name, expectation, text);
  const message = `its last ${omitted} bytes were dropped`;
  if (expectation !== undefined)
    throw new McpvalsError("step/cannot-run", `${name} is too long to be checked: ${message}`, {
      hint: "Make the command write less, for example with grep, head or jq.",
      detail: tailOf(text),
    });
  const actual = { characters: text.length, omittedBytes: omitted };
  return [{ name: `${name} kept`, passed: true, expected: null, actual, message }];
}
