import type { Command } from "commander";
import { configCommand } from "../config-command.ts";

/** `mcpvals validate`: checks a config without starting anything. */
export function validateCommand(setExitCode: (code: number) => void): Command {
  return configCommand("validate", async ({ source, ...options }) => {
    const { executeValidate } = await import("../execute-validate.ts");
    setExitCode(await executeValidate(source, options));
  }).description("check a config without starting anything");
}
