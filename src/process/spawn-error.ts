import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";

/** What was to be started. */
export interface Attempt {
  readonly command: string;
  readonly cwd: string;
}

interface Explanation {
  readonly message: string;
  readonly hint: string;
}

/** Says why a program could not be started: the system's own answer does not tell a bad command from a bad folder. */
export async function explainSpawnError(error: unknown, attempt: Attempt): Promise<McpvalsError> {
  const { message, hint } = (await explainFolder(attempt.cwd)) ?? (await explainCommand(error, attempt));
  return new McpvalsError("server/spawn-failed", message, { hint, cause: error });
}

async function explainFolder(cwd: string): Promise<Explanation | undefined> {
  const hint = "Give a folder that exists and may be entered as cwd.";
  try {
    if (!(await stat(cwd)).isDirectory()) return { message: `cwd is not a folder: ${cwd}`, hint };
    await access(cwd, constants.X_OK);
    return undefined;
  } catch (error) {
    const reason = codeOf(error) === "ENOENT" ? "does not exist" : "may not be entered";
    return { message: `cwd ${reason}: ${cwd}`, hint };
  }
}

async function explainCommand(error: unknown, { command, cwd }: Attempt): Promise<Explanation> {
  switch (codeOf(error)) {
    case "ENOENT":
      return explainMissing(command, cwd);
    case "EACCES":
    case "EPERM":
      return {
        message: `not executable: ${command}`,
        hint: "Name a program, make the file executable (chmod +x), or pass it to its interpreter as an argument.",
      };
    case "EMFILE":
    case "ENFILE":
      return {
        message: `cannot start ${command}: too many files are open (${codeOf(error)})`,
        hint: "Run fewer trials at once (concurrency), or raise the limit (ulimit -n).",
      };
    case "EAGAIN":
      return {
        message: `cannot start ${command}: too many processes are running (EAGAIN)`,
        hint: "Run fewer trials at once (concurrency), or raise the limit (ulimit -u).",
      };
    default:
      return {
        message: `cannot start ${command}: ${error instanceof Error ? error.message : String(error)}`,
        hint: "Run the same command in a terminal.",
      };
  }
}

async function explainMissing(command: string, cwd: string): Promise<Explanation> {
  const message = `command not found: ${command}`;
  const hasArguments = /\S\s+\S/.test(command);
  const split = "command is one program without arguments: put what follows its name into args.";
  if (!/[/\\]/.test(command)) {
    const hint = "Install it, or give its full path; PATH has no such program.";
    return { message, hint: hasArguments ? split : hint };
  }
  try {
    await access(resolve(cwd, command));
  } catch {
    const hint = `Check the path; it was looked for from ${cwd}.`;
    return { message, hint: hasArguments ? `${split} Else: ${hint}` : hint };
  }
  return {
    message: `the interpreter of ${command} was not found`,
    hint: "Check the first line of that file, or pass it to its interpreter as an argument.",
  };
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "unknown";
}
