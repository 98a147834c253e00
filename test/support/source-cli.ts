import { spawn } from "node:child_process";
import { join } from "node:path";
import { root, testCache } from "./cli.ts";

export interface SourceOutcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command line from its source, to its end, with PATH and HOME alone in its environment. */
export function runSource(
  args: readonly string[],
  { cwd, env = {} }: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
): Promise<SourceOutcome> {
  const child = spawn(process.execPath, [join(root, "src/cli/main.ts"), ...args], {
    cwd,
    env: {
      PATH: `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`,
      HOME: cwd,
      XDG_CACHE_HOME: testCache,
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString("utf8")));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString("utf8")));
  return new Promise((done, fail) => {
    child.on("error", fail);
    child.on("close", (code) => done({ code, stdout, stderr }));
  });
}
