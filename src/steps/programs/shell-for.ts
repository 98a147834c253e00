import { McpvalsError } from "../../core/errors/error.ts";
import { hasShellValues, isShell } from "../../core/templates/shell-line.ts";
import { defaultShell } from "../../process/environment.ts";

/**
 * The shell for a text, by default that of the environment. Throws McpvalsError `step/cannot-run` for one that does not
 * read variables as the text has them, when it has any.
 */
export function shellFor(env: Readonly<Record<string, string>>, named?: string): string {
  const shell = named ?? defaultShell(env);
  if (!hasShellValues(env) || isShell(shell)) return shell;
  const message = `a value from outside stands in a text for ${shell}, and only for sh, bash, dash, zsh, ksh, fish and their like is it known how`;
  throw new McpvalsError("step/cannot-run", message, {
    hint: "Name one of these shells with `shell`, or pass the value in the step's env.",
  });
}
