import type { Command } from "commander";
import { configCommand } from "../config-command.ts";

/** `mcpvals list`: shows the workflows and tool tests of a config without starting anything. */
export function listCommand(setExitCode: (code: number) => void): Command {
  return configCommand("list", async ({ source, ...options }) => {
    const { executeList } = await import("../execute-list.ts");
    setExitCode(await executeList(source, options));
  }).description("show the workflows and tool tests of a config, starting nothing");
}
