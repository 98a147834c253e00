import { checkText } from "../core/checks/text-expectation.ts";
import { expandTextExpectation } from "../core/checks/expand-expectation.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { CommandExpectation, CommandStep, TextExpectation } from "../core/formats/step.ts";
import type { Expander } from "../core/templates/expand.ts";
import { inFilePath, inProgramName } from "../core/templates/places.ts";
import type { Check } from "../core/trace/events.ts";
import { mergeEnvironments } from "../process/environment.ts";
import type { KeptText } from "../process/program-output.ts";
import { exitCheck, type ProgramRun, runProgram, shellFor, tailOf, withoutLineEnd } from "./program.ts";
import { refuseUnreadVerdict } from "./script-answer.ts";
import {
  expandEnv,
  refuseEmptyGiven,
  type StepAttempt,
  type StepContext,
  type StepRunner,
} from "./step-runner.ts";
import { resolveTaskPath } from "./task-path.ts";

/** Runs a line with the shell (see `defaultShell`) and looks at its exit code and what it wrote. */
export const commandStep: StepRunner<CommandStep> = {
  type: "command",
  keepsTime: true,
  expand: (step, expander) => {
    const text = (template: string): string => expander.text(template);
    const { shell, workdir, stdin } = step;
    const run = expander.shell(step.run);
    refuseEmptyGiven(step.run, Object.values(step.env), expander);
    return {
      ...step,
      run: run.text,
      ...(shell === undefined ? {} : { shell: expander.placed(shell, inProgramName) }),
      ...(workdir === undefined ? {} : { workdir: expander.placed(workdir, inFilePath) }),
      env: { ...expandEnv(step.env, expander), ...run.variables },
      ...(stdin === undefined ? {} : { stdin: text(stdin) }),
      expect: expandExpect(step.expect, expander),
    };
  },
  input: ({ run, shell, workdir, env, stdin }) => ({
    run,
    ...(shell === undefined ? {} : { shell }),
    ...(workdir === undefined ? {} : { workdir }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(stdin === undefined ? {} : { stdin }),
  }),
  run,
};

function expandExpect(expect: CommandExpectation, expander: Expander): CommandExpectation {
  const { stdout, stderr } = expect;
  return {
    ...expect,
    ...(stdout === undefined ? {} : { stdout: expandTextExpectation(stdout, expander) }),
    ...(stderr === undefined ? {} : { stderr: expandTextExpectation(stderr, expander) }),
  };
}

async function run(step: CommandStep, context: StepContext): Promise<StepAttempt> {
  const { trial } = context;
  const env = mergeEnvironments([trial.env, step.env]);
  const program = {
    role: "the shell",
    hint: "Name a shell that is installed and takes -c, with `shell` or the variable SHELL; on Windows sh has to be on PATH.",
    command: shellFor(env, step.shell),
    args: ["-c", step.run],
    cwd: step.workdir === undefined ? trial.dir : await folderOf(step.workdir, context),
    env,
    ...(step.stdin === undefined ? {} : { stdin: step.stdin }),
  };
  const done = await runProgram(program, step, context);
  const { stdout, stderr, exitCode } = done;
  if (step.expect.stdout === undefined) {
    refuseUnreadVerdict(done, {
      role: "the command",
      hint: "Make it a script with protocol: json, exit with 1, or expect something of stdout.",
    });
  }
  return {
    kind: "checked",
    checks: [
      exitCodeCheck(done, step),
      ...outputChecks("stdout", step.expect.stdout, stdout),
      ...outputChecks("stderr", step.expect.stderr, stderr),
    ],
    values: { stdout: withoutLineEnd(stdout.text), stderr: withoutLineEnd(stderr.text), exitCode },
  };
}

async function folderOf(workdir: string, { trial }: StepContext): Promise<string> {
  return resolveTaskPath(workdir, trial, { forWriting: false });
}

function exitCodeCheck(done: ProgramRun, { run: text, shell, expect }: CommandStep): Check {
  const { exitCode: expected } = expect;
  const isShown = done.exitCode !== expected;
  return exitCheck(done, {
    expected,
    evidence: isShown ? { stderr: tailOf(done.stderr.text), stdout: tailOf(done.stdout.text) } : {},
    program: { text, ...(shell === undefined ? {} : { shell }) },
    isOutputRead: expect.stdout !== undefined || expect.stderr !== undefined,
  });
}

/** Dropped output cannot be checked, so an expectation of it is an error. */
function outputChecks(
  name: "stdout" | "stderr",
  expectation: TextExpectation | undefined,
  { text, omitted }: KeptText,
): Check[] {
  if (expectation === undefined) return omitted === 0 ? [] : [omission(name, text, omitted)];
  if (omitted === 0) return checkText(name, expectation, text);
  throw new McpvalsError("step/cannot-run", `${name} is too long to be checked: ${omissionText(omitted)}`, {
    hint: "Have the command write less, with grep, head or jq for instance.",
    detail: tailOf(text),
  });
}

function omission(name: string, text: string, omitted: number): Check {
  return {
    name: `${name} kept`,
    passed: true,
    expected: null,
    actual: { characters: text.length, omittedBytes: omitted },
    message: omissionText(omitted),
  };
}

function omissionText(omitted: number): string {
  return `its last ${omitted} bytes were dropped`;
}
