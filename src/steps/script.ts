import { constants } from "node:fs";
import { access, open, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import type { ProgramText } from "../core/formats/idle-program.ts";
import type { Json, JsonObject } from "../core/formats/model.ts";
import type { ScriptStep } from "../core/formats/step.ts";
import type { Expander } from "../core/templates/expand.ts";
import { inProgramName, inProgramText } from "../core/templates/places.ts";
import { isShell, scriptProgram, type ShellText } from "../core/templates/shell-line.ts";
import type { Check } from "../core/trace/events.ts";
import { mergeEnvironments } from "../process/environment.ts";
import { interpreterOf } from "../process/environment.ts";
import { makeTemporaryFolder } from "../process/folders.ts";
import { exitCheck, type ProgramRun, runProgram, shellFor, tailOf, withoutLineEnd } from "./program.ts";
import { readScriptAnswer, refuseUnreadVerdict } from "./script-answer.ts";
import {
  expandEnv,
  refuseEmptyGiven,
  type StepAttempt,
  type StepContext,
  type StepRunner,
  type TrialContext,
} from "./step-runner.ts";
import { resolveTaskPath } from "./task-path.ts";

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
async function prepareScript(
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
    // Without this flag, opening a pipe would block forever. Windows has no such flag.
    await using handle = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    if (!(await handle.stat()).isFile()) throw new Error("it is not a regular file");
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
