import type { Environment } from "./environment.ts";

/**
 * The shell that runs a task's commands unless it names one: the variable SHELL, else `/bin/sh`. On Windows, which has no
 * shell of its own that understands `-c`, it is `sh` from PATH, as Git for Windows brings it.
 */
export function defaultShell(env: Environment, platform: NodeJS.Platform = process.platform): string {
  const named = env["SHELL"];
  if (named !== undefined && named !== "") return named;
  return platform === "win32" ? "sh" : "/bin/sh";
}
