import type { Command } from "commander";
import { configCommand } from "../config-command.ts";

/** `mcpvals list`: shows what there is to evaluate without starting anything. */
export function listCommand(setExitCode: (code: number) => void): Command {
  return configCommand("list", async (question) => {
    const { executeList } = await import("../execute-list.ts");
    setExitCode(await executeList(question));
  }).description("show the tasks, workflows and tool tests, starting nothing");
}
