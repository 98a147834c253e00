import type { Command } from "commander";
import { configCommand } from "../config-command.ts";

/** `mcpvals validate`: checks files without starting anything. */
export function validateCommand(setExitCode: (code: number) => void): Command {
  return configCommand("validate", async (question) => {
    const { executeValidate } = await import("../execute-validate.ts");
    setExitCode(await executeValidate(question));
  }).description("check a config, an Eval or tasks without starting anything");
}
