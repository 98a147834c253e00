import { checkText } from "../core/checks/expectations.ts";
import { McpvalsError } from "../core/errors/error.ts";
import { withoutUndefined } from "../core/formats/json.ts";
import type { CommandStep, TextExpectation } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";
import { mergeEnvironments } from "../process/environment.ts";
import { type KeptText, tailOf } from "../process/program-output.ts";
import { exitCheck, printedBy, refuseUnreadVerdict, runProgram, shellFor } from "./program.ts";
import type { StepRunner } from "./step-runner.ts";
import { resolveTaskPath } from "./task-path.ts";

/** Runs a command line with the shell and checks its exit code and output. */
export const commandStep: StepRunner<CommandStep> = {
  keepsTime: true,
  input: ({ run, shell, workdir, env, stdin }) => ({
    run,
    ...withoutUndefined({ shell, workdir }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...withoutUndefined({ stdin }),
  }),
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
      ...withoutUndefined({ stdin }),
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
      program: { text, ...withoutUndefined({ shell }) },
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
