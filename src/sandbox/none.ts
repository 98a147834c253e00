import { spawnProcess } from "../process/spawn.ts";
import type { Sandbox } from "./sandbox.ts";

/** No confinement: the program sees what mcpvals itself can see, and has no limits but time. */
export const noSandbox: Sandbox = {
  kind: "none",
  check: () => Promise.resolve(),
  async start({ process }) {
    return Object.assign(await spawnProcess(process), { brokenLimit: undefined });
  },
};
