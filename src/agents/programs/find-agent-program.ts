import { tmpdir } from "node:os";
import { isAbsolute } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import type { AcpAgentSpec, CommandAgentSpec } from "../../core/formats/model.ts";
import { findProgram } from "../../process/find-program.ts";

type Program = Pick<AcpAgentSpec | CommandAgentSpec, "name" | "command" | "env" | "cwd">;

/**
 * Throws McpvalsError `agent/program-not-found` when an agent's program cannot be found. A path that is relative to the
 * workspace of a trial, which does not exist yet, is not looked at. `npmPackage` is what has the program.
 */
export async function findAgentProgram(
  { name, command, env, cwd }: Program,
  npmPackage?: string,
): Promise<void> {
  if (cwd === undefined && !isAbsolute(command) && /[/\\]/.test(command)) return;
  if ((await findProgram(command, { env, cwd: cwd ?? tmpdir() })) !== undefined) return;
  const install = npmPackage === undefined ? "Install it" : `Install it (npm install --global ${npmPackage})`;
  throw new McpvalsError("agent/program-not-found", `agent ${name}: program not found: ${command}`, {
    hint: `${install}, or give its full path as command.`,
  });
}
