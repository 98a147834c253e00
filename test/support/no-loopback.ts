import { spawnSync } from "node:child_process";
import { builtMain } from "./cli.ts";

/** Whether this system has network namespaces for users. */
export const hasNamespaces: boolean = spawnSync("unshare", ["-rn", "true"]).status === 0;

/** Runs the built CLI in a folder, without any network, not even loopback. */
export function runWithoutLoopback(
  folder: string,
  ...args: readonly string[]
): { readonly status: number | null; readonly stdout: string } {
  return spawnSync("unshare", ["-rn", process.execPath, builtMain, ...args], {
    cwd: folder,
    env: { PATH: process.env["PATH"], HOME: folder },
    encoding: "utf8",
  });
}
