import type { Environment } from "./environment.ts";

/** What the accounts of services have in the place of a shell: it runs nothing, and yet ends with an exit code. */
const none = /(?:^|[/\\])(?:nologin|false|true)$/;

/**
 * The shell that runs a task's commands unless it names one: the variable SHELL, where it is one, else `/bin/sh`. On
 * Windows, which has no shell of its own that understands `-c`, it is `sh` from PATH, as Git for Windows brings it.
 */
export function defaultShell(env: Environment, platform: NodeJS.Platform = process.platform): string {
  const named = env["SHELL"];
  if (named !== undefined && named !== "" && !none.test(named)) return named;
  return platform === "win32" ? "sh" : "/bin/sh";
}
