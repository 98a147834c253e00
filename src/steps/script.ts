import { McpvalsError, messageOf } from "../base/error.ts";
import { constants } from "node:fs";
import { access, open, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isJsonObject, withoutUndefined, type Json, type JsonObject } from "../base/json.ts";
import { readJsonText } from "../base/read-json.ts";
import type { ScriptStep } from "../model/step.ts";
import type { Check } from "../model/event.ts";
import { interpreterOf, mergeEnvironments } from "../process/environment.ts";
import { makeTemporaryFolder } from "../process/folders.ts";
import { outputDetails, tailOf } from "../process/program-output.ts";
import {
  exitCheck,
  printedBy,
  type ProgramRun,
  refuseUnreadVerdict,
  runProgram,
  shellFor,
} from "./program.ts";
import { type StepContext, type StepRunner, type TrialContext, unlessEmpty } from "./step-runner.ts";
import { resolveTaskPath } from "./task-path.ts";

type Env = Readonly<Record<string, string>>;

/** Runs a program of the task's own, whose exit code or JSON on stdout is the result. */
export const scriptStep: StepRunner<ScriptStep> = {
  keepsTime: true,
  input: ({ source, args, env, protocol }) => ({
    ...source,
    ...withoutUndefined({ args: unlessEmpty(args), env: unlessEmpty(env) }),
    protocol,
  }),
  async run(step, context) {
    const { trial } = context;
    const { protocol, source } = step;
    const env = mergeEnvironments([trial.env, step.env]);
    await using launch = await prepareScript(step, trial, env);
    const { command, args, cwd, remark, text } = launch;
    const spec = {
      role: "the script",
      hint: "Check the script's first line: it names the interpreter, which has to be installed.",
      command,
      args: [...args, ...step.args],
      cwd,
      env,
      stdin: protocol === "json" ? JSON.stringify(scriptInput(context, env)) : undefined,
      texts: "inline" in source ? [source.inline] : undefined,
    };
    const done = await runProgram(spec, step, context);
    const { stdout, stderr, together } = done;
    const values = printedBy(done);
    if (protocol === "json") return { kind: "checked", values, ...readScriptAnswer(done, remark) };
    // The older forms have no JSON protocol.
    if (step.failure === undefined) {
      const hint = "Set protocol: json in the step, so that its answer is read, or exit with 1.";
      refuseUnreadVerdict(done, "the script", hint);
    }
    const check = exitCheck(done, { expected: 0, evidence: { output: tailOf(together) }, text });
    const omitted = stdout.omitted + stderr.omitted;
    const loss = omitted === 0 ? "" : ` (${omitted} bytes of its output were dropped)`;
    const advice = check.passed || remark === undefined ? "" : `. ${remark}`;
    return { kind: "checked", values, checks: [{ ...check, message: `${check.message}${loss}${advice}` }] };
  },
};

/** The input of a script with `protocol: json`. */
function scriptInput({ trial }: StepContext, env: Env): JsonObject {
  const { task: name, prompt, agent = null, outputs, workspace } = trial;
  const { toolCalls, resourceReads, promptGets } = trial.history();
  const steps = Object.fromEntries([...outputs].map(([id, given]) => [id, { outputs: given }]));
  const mcp = { callHistory: { toolCalls, resourceReads, promptGets } };
  return { task: { name, prompt }, agent, mcp, env, steps, workspace };
}

/** Bytes that are read of a script: its first line, and the whole text of one that may do nothing. */
const headLength = 16_384;

/** How a script is started. Its disposal removes the temporary file. */
interface ScriptLaunch extends AsyncDisposable {
  readonly command: string;
  /** Without the arguments of the step. */
  readonly args: readonly string[];
  readonly cwd: string;
  /** The probable reason for a failure. */
  readonly remark?: string | undefined;
  /** Its whole text; absent for one that is too long. */
  readonly text?: string | undefined;
}

/**
 * Prepares the start of a script. An executable file is started itself, any other by the interpreter in its first line, else by the
 * shell; its mode is not changed. A text becomes a temporary file outside the task's folder. Throws McpvalsError `step/cannot-run` when the file cannot be read, and what `resolveTaskPath` throws.
 */
async function prepareScript(
  { source, workdir }: ScriptStep,
  trial: TrialContext,
  env: Env,
): Promise<ScriptLaunch> {
  if ("inline" in source) return prepareText(source.inline, trial, env);
  const file = await resolveTaskPath(source.file, trial, { forWriting: false });
  const head = await readHead(file);
  const launch = {
    cwd: workdir === "script" ? dirname(file) : trial.dir,
    text: head.length < headLength ? head : undefined,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  // The system starts a file with an interpreter line and a binary program; anything else needs a shell.
  const startsItself = head.startsWith("#!") || head.includes("\0");
  const isExecutable = access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
  if (startsItself && (await isExecutable)) return { ...launch, command: file, args: [] };
  const isNamedAsShell = /\.(?:sh|bash|zsh|ksh|dash)$/i.test(file);
  const remark = "The file has no #! line, so the shell ran it; begin it with #!/usr/bin/env python3, say.";
  return {
    ...launch,
    ...interpreted(file, head, env),
    remark: startsItself || isNamedAsShell ? undefined : remark,
  };
}

async function prepareText(text: string, { dir }: TrialContext, env: Env): Promise<ScriptLaunch> {
  const trimmed = text.trimStart();
  const folder = await makeTemporaryFolder("script");
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true, maxRetries: 5 });
  try {
    const file = join(folder, "script");
    await writeFile(file, trimmed.startsWith("#!") ? trimmed : text, { mode: 0o600 });
    const launch = interpreted(file, trimmed, env);
    return { ...launch, text, cwd: dir, [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

function interpreted(file: string, head: string, env: Env): Pick<ScriptLaunch, "command" | "args"> {
  const { command, args } = interpreterOf(head) ?? { command: shellFor(env), args: [] };
  return { command, args: [...args, file] };
}

async function readHead(file: string): Promise<string> {
  try {
    // Without this flag, opening a pipe would block forever. Windows has no such flag.
    await using handle = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    if (!(await handle.stat()).isFile()) throw new Error("it is not a regular file");
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(headLength), 0, headLength);
    return buffer.toString("latin1", 0, bytesRead);
  } catch (cause) {
    const reason = messageOf(cause);
    throw new McpvalsError("step/cannot-run", `the script cannot be read: ${reason}`, {
      hint: "Check the script's path, which starts from the task's folder.",
      cause,
    });
  }
}

const protocolHint =
  "With protocol: json it exits with 0 and writes one JSON object with `passed` on stdout; logs belong on stderr.";

/**
 * Reads the answer of a script that ran with `protocol: json`: the overall check first, then the script's own. Throws McpvalsError
 * `step/broken-script` when it did not exit with 0, or did not write exactly one JSON object in the form of the protocol; `remark`
 * is the probable reason.
 */
function readScriptAnswer(
  run: ProgramRun,
  remark: string | undefined,
): { readonly checks: readonly Check[]; readonly outputs: JsonObject | undefined } {
  const broken = (problem: string): McpvalsError =>
    new McpvalsError("step/broken-script", `the script is broken: ${problem}`, {
      hint: remark ?? protocolHint,
      ...outputDetails(run),
    });
  const { signal, exitCode, stdout } = run;
  if (signal !== null) throw broken(`it was ended by ${signal}`);
  if (exitCode !== 0) throw broken(`it exited with ${exitCode}`);
  if (stdout.omitted > 0) throw broken("its answer is too long and was cut");
  if (stdout.text.trim() === "") throw broken("it wrote nothing on stdout");
  const { value: answer, reason: problem } = readJsonText(stdout.text);
  if (answer === undefined) throw broken(`its stdout is not one JSON object: ${problem}`);
  if (!isJsonObject(answer)) throw broken(`its stdout is ${typeName(answer)}, not an object`);
  const { passed, reason } = answer;
  // Some languages write null for what is absent.
  const checks = answer["checks"] ?? [];
  const outputs = answer["outputs"] ?? undefined;
  if (typeof passed !== "boolean") throw broken(`"passed" is ${typeName(passed)}, not true or false`);
  if (!isOptionalText(reason)) throw broken(`"reason" is ${typeName(reason)}, not a text`);
  if (outputs !== undefined && !isJsonObject(outputs))
    throw broken(`"outputs" is ${typeName(outputs)}, not an object`);
  if (!Array.isArray(checks)) throw broken(`"checks" is ${typeName(checks)}, not a list`);
  const verdict = `the script says that it ${passed ? "passed" : "failed"}`;
  const own = checks.map((check: Json, index): Check => {
    const place = `checks[${index}]`;
    if (!isJsonObject(check)) throw broken(`${place} is ${typeName(check)}, not an object`);
    const { name, passed: holds, message } = check;
    if (typeof name !== "string" || name.trim() === "") throw broken(`${place} has no name`);
    if (typeof holds !== "boolean")
      throw broken(`${place} has "passed" as ${typeName(holds)}, not true or false`);
    if (!isOptionalText(message)) throw broken(`${place} has "message" as ${typeName(message)}, not a text`);
    return checkOf(name, holds, message, holds ? "it holds" : "it does not hold");
  });
  return { checks: [checkOf("passed", passed, reason, verdict), ...own], outputs };
}

function checkOf(name: string, passed: boolean, text: string | null | undefined, fallback: string): Check {
  const message = text?.trim() ? text : fallback;
  return { name, passed, expected: true, actual: passed, message };
}

function isOptionalText(value: Json | undefined): value is string | null | undefined {
  return (value ?? "") === "" || typeof value === "string";
}

function typeName(value: Json | undefined): string {
  if (value === undefined) return "not there";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
