import { spawn } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { root, testCache } from "./cli.ts";

export interface ShellOutcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ShellOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * Runs a command line as a user would type it, in an empty home, with the checkout's Node and without the network for npm.
 * Rejects only when there is no shell.
 */
export function runShell(line: string, { cwd, env = {} }: ShellOptions): Promise<ShellOutcome> {
  const child = spawn("sh", ["-c", line], {
    cwd,
    env: {
      PATH: `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`,
      HOME: cwd,
      XDG_CACHE_HOME: testCache,
      npm_config_offline: "true",
      npm_config_update_notifier: "false",
      npm_config_audit: "false",
      npm_config_fund: "false",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  return new Promise((done, fail) => {
    child.on("error", fail);
    child.on("close", (code) => done({ code, stdout, stderr }));
  });
}

/**
 * Puts the built checkout into a folder's node_modules as the package `mcpvals`, command included, and with it packages
 * of the checkout's own node_modules.
 */
export function linkPackage(folder: string, others: readonly string[] = []): void {
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, ".bin"), { recursive: true });
  symlinkSync(root, join(modules, "mcpvals"), "junction");
  symlinkSync(join("..", "mcpvals", "dist", "main.js"), join(modules, ".bin", "mcpvals"));
  for (const name of others) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(root, "node_modules", name), join(modules, name), "junction");
  }
}
