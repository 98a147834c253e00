import { access, open } from "node:fs/promises";
import { delimiter, resolve } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { findProgram } from "../process/find-program.ts";
import { interpreterOf } from "../process/interpreter.ts";
import type { ProcessSpec } from "../process/spawn.ts";
import { explainSpawnError } from "../process/spawn-error.ts";

/** Programs that a sandbox must show so that another can run. */
export interface FoundCommand {
  /** Absolute path of the program itself. */
  readonly command: string;
  /** Absolute paths of it and of what its first line names. */
  readonly programs: readonly string[];
}

/** Tells whether a path can be seen inside anyway. */
type IsVisible = (path: string) => boolean;

/**
 * Finds the program of a spec, and the interpreter that its first line names. A name is looked for on the spec's PATH;
 * scripts that are found there but are not visible inside, such as the shims of version managers, are passed over, because
 * they would not find there what they stand for. Throws McpvalsError `server/spawn-failed` when there is no such program.
 */
export async function findCommand(spec: ProcessSpec, isVisible: IsVisible): Promise<FoundCommand> {
  const command = await findUsable(spec.command, spec, isVisible);
  if (command === undefined) throw await explainMissing(spec);
  const interpreter = await findInterpreter(command, spec, isVisible);
  return { command, programs: interpreter === undefined ? [command] : [command, ...interpreter] };
}

async function findUsable(
  name: string,
  spec: ProcessSpec,
  isVisible: IsVisible,
): Promise<string | undefined> {
  if (name.includes("/")) return findProgram(name, spec);
  for (const folder of (spec.env["PATH"] ?? "").split(delimiter)) {
    const path = await findProgram(name, { env: { PATH: folder }, cwd: spec.cwd });
    if (path !== undefined && (isVisible(path) || !(await firstLine(path)).startsWith("#!"))) return path;
  }
  return undefined;
}

/** What runs a script, with what `env` looks for when that is it; undefined for what is no script. */
async function findInterpreter(
  path: string,
  spec: ProcessSpec,
  isVisible: IsVisible,
): Promise<readonly string[] | undefined> {
  const interpreter = interpreterOf(await firstLine(path));
  if (interpreter === undefined) return undefined;
  if (!interpreter.command.endsWith("/env")) return [interpreter.command];
  const name = interpreter.args.flatMap((text) => text.split(/\s+/)).find((word) => !/^-|=/.test(word));
  const found = name === undefined ? undefined : await findUsable(name, spec, isVisible);
  return found === undefined ? [interpreter.command] : [interpreter.command, found];
}

/** As much of a file as the system looks at to find its interpreter. */
async function firstLine(path: string): Promise<string> {
  try {
    await using file = await open(path, "r");
    const { buffer, bytesRead } = await file.read(Buffer.alloc(256), 0, 256, 0);
    return buffer.toString("utf8", 0, bytesRead).split("\n")[0] ?? "";
  } catch {
    return ""; // may be executed but not read: then it is no script
  }
}

async function explainMissing(spec: ProcessSpec): Promise<Error> {
  const hidden = spec.command.includes("/") ? undefined : await findProgram(spec.command, spec);
  if (hidden !== undefined)
    return new McpvalsError("server/spawn-failed", `the sandbox does not show the program ${hidden}`, {
      hint: "Let the sandbox read the folder that it is installed in, such as read: [../node_modules].",
    });
  const isThere = await access(resolve(spec.cwd, spec.command)).then(
    () => true,
    () => false,
  );
  const code = spec.command.includes("/") && isThere ? "EACCES" : "ENOENT";
  return explainSpawnError(Object.assign(new Error(code), { code }), spec);
}
