import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { McpvalsError } from "../base/error.ts";
import type { GraderProgram, ProgramEnd } from "./grader.ts";
import { abortAfter } from "../process/deadline.ts";
import {
  type Environment,
  inheritedEnvironment,
  localBinPath,
  mergeEnvironments,
} from "../process/environment.ts";
import { makeTemporaryFolder } from "../process/folders.ts";
import { outputDetails, ProgramOutput, runToEnd, tailOf } from "../process/program-output.ts";
import { type ManagedProcess, type ProcessSpec, spawnProcess } from "../process/spawn.ts";

/** Maximum output of a program on each stream, in bytes. */
const maxOutputLength = 1_000_000;

export interface RunProgramOptions {
  /** All variables; a program gets those that every program needs, and those of its `inheritEnv`. */
  readonly env: Environment;
  /** Ends what runs; its reason is then thrown. */
  readonly signal: AbortSignal;
}

/** Runs a program of a grader, see `RunProgram`. */
export async function runProgram(
  program: GraderProgram,
  { env, signal }: RunProgramOptions,
): Promise<ProgramEnd> {
  const { cwd, timeoutMs, stdin } = program;
  const { command, args } = commandOf(program);
  const name = program.command ?? "the code of the grader";
  const output = new ProgramOutput(maxOutputLength);
  const timeUp = (): McpvalsError =>
    new McpvalsError("grader/timeout", `${name} took longer than ${timeoutMs} ms`, outputDetails(output));
  using limit = abortAfter(timeoutMs, timeUp, signal);
  limit.signal.throwIfAborted();
  await using copies = program.workspace && (await copyFiles(program.workspace));
  const given = mergeEnvironments([environmentOf(program, env), { WAZA_WORKSPACE_DIR: copies?.path }]);
  const child = await start({ command, args, cwd, env: given });
  const exit = await runToEnd(child, { output, stdin, signal: limit.signal });
  const { exitCode } = exit;
  if (exitCode === null) {
    const message = `${name} was ended by ${exit.signal ?? "a signal"}`;
    throw new McpvalsError("grader/cannot-run", message, outputDetails(output));
  }
  const { text: stdout, omitted } = output.stdout;
  return { exitCode, stdout, omitted, stderr: tailOf(output.stderr.text) };
}

/** The variables that a program of a grader gets. */
export function environmentOf(
  { cwd, inheritEnv }: Pick<GraderProgram, "cwd" | "inheritEnv">,
  env: Environment,
): Environment {
  const inherited = inheritedEnvironment(env, inheritEnv);
  return { ...inherited, PATH: localBinPath(cwd, inherited["PATH"]) };
}

/** Node runs its files as they are in the build, and as they are written in a checkout. */
const hostFile = fileURLToPath(new URL(`./grader-host${extname(import.meta.url)}`, import.meta.url));

function commandOf({ command, args }: GraderProgram): Pick<ProcessSpec, "command" | "args"> {
  return command === undefined ? { command: process.execPath, args: [hostFile] } : { command, args };
}

/** Writes files into a temporary folder. Its disposal removes them. */
async function copyFiles(
  files: ReadonlyMap<string, string>,
): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await makeTemporaryFolder("work");
  const remove = (): Promise<void> => rm(path, { recursive: true, force: true, maxRetries: 5 });
  try {
    for (const [name, text] of files) {
      const file = join(path, name);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, text, { flag: "wx" });
    }
    return { path, [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function start(spec: ProcessSpec): Promise<ManagedProcess> {
  try {
    return await spawnProcess(spec);
  } catch (cause) {
    if (!(cause instanceof McpvalsError)) throw cause;
    throw new McpvalsError("grader/cannot-run", cause.message, { ...cause.details, cause });
  }
}
