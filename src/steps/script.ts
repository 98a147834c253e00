import type { Json, JsonObject } from "../core/formats/model.ts";
import type { ScriptStep } from "../core/formats/step.ts";
import type { Check } from "../core/trace/events.ts";
import type { Expander } from "../core/templates/expand.ts";
import { inProgramName, inProgramText } from "../core/templates/places.ts";
import { isShell, scriptProgram, type ShellText } from "../core/templates/shell-line.ts";
import { mergeEnvironments } from "../process/environment.ts";
import { exitCheck } from "./programs/exit-check.ts";
import { type ProgramRun, runProgram } from "./programs/run-program.ts";
import { readScriptAnswer, refuseUnreadVerdict } from "./programs/script-answer.ts";
import { prepareScript, type ScriptLaunch } from "./programs/script-launch.ts";
import { tailOf, withoutLineEnd } from "./programs/shown-output.ts";
import {
  expandEnv,
  refuseEmptyGiven,
  type StepAttempt,
  type StepContext,
  type StepRunner,
} from "./step-runner.ts";

/** Runs a program of the task's own, which says by its exit code or by JSON on stdout how it went. */
export const scriptStep: StepRunner<ScriptStep> = {
  type: "script",
  keepsTime: true,
  expand: (step, expander) => {
    const { source } = step;
    const inline = "file" in source ? noText : expandScript(source.inline, expander);
    if ("inline" in source)
      refuseEmptyGiven(source.inline, [...step.args, ...Object.values(step.env)], expander);
    return {
      ...step,
      source:
        "file" in source ? { file: expander.placed(source.file, inProgramName) } : { inline: inline.text },
      args: step.args.map((arg) => expander.text(arg)),
      env: { ...expandEnv(step.env, expander), ...inline.variables },
    };
  },
  input: ({ source, args, env, protocol }) => ({
    ...source,
    ...(args.length === 0 ? {} : { args }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    protocol,
  }),
  run,
};

const noText: ShellText = { text: "", variables: {} };

/** Only in the text of a shell it is known how a value stays a value. */
function expandScript(inline: string, expander: Expander): ShellText {
  const program = scriptProgram(inline);
  if (program === undefined || isShell(program)) return expander.shell(inline);
  return { text: expander.placed(inline, inProgramText(program)), variables: {} };
}

async function run(step: ScriptStep, context: StepContext): Promise<StepAttempt> {
  const { trial } = context;
  const env = mergeEnvironments([trial.env, step.env]);
  await using launch = await prepareScript(step, trial, env);
  const done = await runProgram(
    {
      role: "the script",
      hint: "Check the script's first line: it names the interpreter, which has to be installed.",
      command: launch.command,
      args: [...launch.args, ...step.args],
      cwd: launch.cwd,
      env,
      ...(step.protocol === "json" ? { stdin: JSON.stringify(scriptInput(context, env)) } : {}),
      ...("inline" in step.source ? { texts: [step.source.inline] } : {}),
    },
    step,
    context,
  );
  const { exitCode } = done;
  const [stdout, stderr] = [withoutLineEnd(done.stdout.text), withoutLineEnd(done.stderr.text)];
  const values = { stdout, stderr, exitCode };
  if (step.protocol === "json") {
    return { kind: "checked", values, ...readScriptAnswer(done, launch.remark) };
  }
  // In the older forms there is nothing but the exit code.
  if (step.failure === undefined) {
    const hint = "Set protocol: json in the step, so that its answer is read, or exit with 1.";
    refuseUnreadVerdict(done, { role: "the script", hint });
  }
  return { kind: "checked", values, checks: exitChecks(done, launch) };
}

/** What a script with `protocol: json` reads from its stdin. */
function scriptInput({ trial }: StepContext, env: Readonly<Record<string, string>>): JsonObject {
  const { toolCalls, resourceReads, promptGets } = trial.history();
  const steps: Readonly<Record<string, Json>> = Object.fromEntries(
    [...trial.outputs].map(([id, outputs]) => [id, { outputs }]),
  );
  return {
    task: { name: trial.task, prompt: trial.prompt },
    agent: trial.agent ?? null,
    mcp: { callHistory: { toolCalls, resourceReads, promptGets } },
    env,
    steps,
    workspace: trial.workspace,
  };
}

function exitChecks(done: ProgramRun, { remark, program }: ScriptLaunch): Check[] {
  const omitted = done.stdout.omitted + done.stderr.omitted;
  const check = exitCheck(done, { expected: 0, evidence: { output: tailOf(done.together) }, program });
  const loss = omitted === 0 ? "" : ` (${omitted} bytes of its output were dropped)`;
  const advice = check.passed || remark === undefined ? "" : `. ${remark}`;
  return [{ ...check, message: `${check.message}${loss}${advice}` }];
}
