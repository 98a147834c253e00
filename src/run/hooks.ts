import { McpvalsError, messageOf } from "../base/error.ts";
import type { RunHook, RunHooks } from "../model/eval.ts";
import type { ReporterFailure } from "../report/reporter.ts";
import type { Redact } from "../trace/redact.ts";
import { abortAfter } from "../process/deadline.ts";
import { type Environment, inheritedEnvironment } from "../process/environment.ts";
import { outputDetails, ProgramOutput, runToEnd } from "../process/program-output.ts";
import { type ManagedProcess, spawnProcess } from "../process/spawn.ts";

/** The commands before and after a run. Its disposal calls `finish`, and ends the processes that they left running. */
export interface StartedHooks extends AsyncDisposable {
  /** Runs the commands before the run. Throws `run/hook-failed` for one that must not fail, and the signal's reason. */
  start(signal: AbortSignal): Promise<void>;
  /** Runs the commands after the run, once. Gives those that failed and must not. */
  finish(): Promise<readonly ReporterFailure[]>;
  /** Failures of commands that may fail. */
  readonly warnings: readonly string[];
}

interface HookOptions {
  /** The shell's variables; a command gets those that programs need. */
  readonly env: Environment;
  readonly redact: Redact;
}

export function createHooks({ before, after }: RunHooks, { env, redact }: HookOptions): StartedHooks {
  const warnings: string[] = [];
  const running: ManagedProcess[] = [];
  const inherited = inheritedEnvironment(env, []);
  let isFinished = false;
  const runHook = async (hook: RunHook, signal?: AbortSignal): Promise<McpvalsError | undefined> => {
    const error = await execute(hook, {
      env: inherited,
      adopt: (child) => void running.push(child),
      signal,
    });
    if (error === undefined) return undefined;
    const { code, message, details } = error;
    const reported = new McpvalsError(code, redact(message), redact(details));
    if (hook.mayFail) warnings.push(reported.message);
    return hook.mayFail ? undefined : reported;
  };
  const finish = async (): Promise<readonly ReporterFailure[]> => {
    if (isFinished) return [];
    isFinished = true;
    const failures: ReporterFailure[] = [];
    for (const hook of after) {
      const error = await runHook(hook);
      if (error !== undefined) failures.push({ reporter: "hook", error });
    }
    return failures;
  };
  return {
    warnings,
    finish,
    async start(signal) {
      for (const hook of before) {
        const error = await runHook(hook, signal);
        if (error !== undefined) throw error;
      }
    },
    async [Symbol.asyncDispose]() {
      await finish();
      await Promise.all(running.map((child) => child.stop()));
    },
  };
}

interface Execution {
  readonly env: Readonly<Record<string, string>>;
  readonly adopt: (child: ManagedProcess) => void;
  readonly signal: AbortSignal | undefined;
}

/** Runs a command; gives its failure, undefined if it succeeded. Throws the signal's reason. */
async function execute(
  { id, command, cwd, exitCodes, timeoutMs }: RunHook,
  { env, adopt, signal }: Execution,
): Promise<McpvalsError | undefined> {
  const output = new ProgramOutput();
  const failure = (what: string): McpvalsError =>
    new McpvalsError("run/hook-failed", `${id} ${what}`, outputDetails(output));
  using limit = abortAfter(timeoutMs, () => failure(`took longer than ${timeoutMs} ms`), signal);
  try {
    limit.signal.throwIfAborted();
    const child = await spawnProcess({ command: "sh", args: ["-c", command], cwd, env });
    const exit = await runToEnd(child, { output, stdin: "", signal: limit.signal, adopt });
    if (exit.exitCode === null) return failure(`was ended by ${exit.signal ?? "a signal"}`);
    if (exitCodes.includes(exit.exitCode)) return undefined;
    return failure(`exited with ${exit.exitCode}, expected ${exitCodes.join(" or ")}`);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof McpvalsError && error.code === "run/hook-failed") return error;
    return failure(`could not be run: ${messageOf(error)}`);
  }
}
