import { stat } from "node:fs/promises";
import { McpvalsError } from "../../core/errors/error.ts";
import type { StepBase } from "../../core/formats/step.ts";
import { abortAfter, untilAborted } from "../../process/deadline.ts";
import { type KeptText, ProgramOutput } from "../../process/program-output.ts";
import { type ManagedProcess, type ProcessExit, spawnProcess } from "../../process/spawn.ts";
import { shownOutput } from "./shown-output.ts";
import type { StepContext } from "../step-runner.ts";

/** How long pipes that a background process holds are read after the program's end, in milliseconds. */
const drainMs = 200;
/** What is killed has so long to end by itself after SIGTERM, in milliseconds. */
const termMs = 200;

export interface Program {
  /** What it is to the reader of an error, such as `the shell`. */
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
