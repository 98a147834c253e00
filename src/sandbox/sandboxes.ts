import type { SandboxSpec } from "../core/formats/model.ts";
import { runningPlatform } from "../process/environment.ts";
import { spawnProcess } from "../process/spawn.ts";
import { bubblewrap } from "./bubblewrap.ts";
import { type Sandbox, unavailable } from "./sandbox.ts";
import { container } from "./container.ts";
import { seatbelt } from "./seatbelt.ts";

/** The sandbox of a kind on this platform; without one, a sandbox whose `check` and `start` say so. */
export function sandboxOf(kind: SandboxSpec["kind"], platform: string = runningPlatform()): Sandbox {
  switch (kind) {
    case "none":
      return noSandbox;
    case "process":
      return processSandbox(platform);
    case "docker":
      return platform === "win32"
        ? unavailable(kind, "containers are not supported on Windows, where paths inside would differ")
        : container;
  }
}

function processSandbox(platform: string): Sandbox {
  if (platform === "linux") return bubblewrap;
  if (platform === "darwin") return seatbelt;
  return unavailable(
    "process",
    `the sandbox "process" exists only on Linux and macOS, and this is ${platform}`,
  );
}

/** No confinement: the program can do what mcpvals itself can do. */
export const noSandbox: Sandbox = {
  kind: "none",
  check: () => Promise.resolve(),
  async start({ process }) {
    return Object.assign(await spawnProcess(process), { brokenLimit: undefined });
  },
};
