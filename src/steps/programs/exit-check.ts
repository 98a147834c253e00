import { idlenessOf, type ProgramText } from "../../core/formats/idle-program.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import type { Check } from "../../core/trace/events.ts";
import type { ProgramRun } from "./run-program.ts";
import { tailOf } from "./shown-output.ts";

const toldCharacters = 300;

/** Exit codes with which shells tell that they could not run something. */
const notRun: Readonly<Record<number, string>> = {
  126: "a program could not be run",
  127: "a program was not found",
};
/** The exit codes that answer yes or no. Programs use others for what kept them from looking: grep, test and curl do. */
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
  const said = tailOf(stderr.text, toldCharacters) || tailOf(stdout.text, toldCharacters);
  return `${how}, expected ${expected}${said === "" ? "" : `: ${said}`}`;
}
