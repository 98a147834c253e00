import { McpvalsError } from "../base/error.ts";
import type { SandboxSpec } from "../model/sandbox.ts";
import { runningPlatform } from "../process/environment.ts";
import { spawnProcess } from "../process/spawn.ts";
import { bubblewrap } from "./bubblewrap.ts";
import { container } from "./container.ts";
import type { Sandbox } from "./sandbox.ts";
import { seatbelt } from "./seatbelt.ts";

/** The sandbox of a kind on this platform; if unsupported, a sandbox whose `check` and `start` throw. */
export function sandboxOf(kind: SandboxSpec["kind"], platform: string = runningPlatform()): Sandbox {
  if (kind === "none") return noSandbox;
  if (kind === "docker") {
    const reason = "containers are not supported on Windows, where paths inside would differ";
    return platform === "win32" ? unavailable(kind, reason) : container;
  }
  if (platform === "linux") return bubblewrap;
  if (platform === "darwin") return seatbelt;
  return unavailable(kind, `the sandbox "process" exists only on Linux and macOS, and this is ${platform}`);
}

function unavailable(kind: SandboxSpec["kind"], reason: string): Sandbox {
  const hint = "Choose another sandbox, or none for extensions that you trust.";
  const refuse = (): Promise<never> =>
    Promise.reject(new McpvalsError("sandbox/unavailable", reason, { hint }));
  return { kind, check: refuse, start: refuse };
}

/** No confinement: the program has the permissions of mcpvals. */
export const noSandbox: Sandbox = {
  kind: "none",
  check: () => Promise.resolve(),
  async start({ process }) {
    return Object.assign(await spawnProcess(process), { brokenLimit: undefined });
  },
};
