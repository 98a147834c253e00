import { Argument, Command, Option } from "commander";
import type { TaskExportFlags } from "../execute-task-export.ts";

/** `mcpvals task`: what can be done with a single task. */
export function taskCommand(setExitCode: (code: number) => void): Command {
  return new Command("task")
    .description("work with a single task: export it for other tools")
    .addCommand(exportCommand(setExitCode).exitOverride().showSuggestionAfterError());
}

/** `mcpvals task export`: a task as one document. */
function exportCommand(setExitCode: (code: number) => void): Command {
  return new Command("export")
    .description("print a task as one document: prompt, steps, files with their hashes")
    .addArgument(new Argument("<file>", "a file of kind Task"))
    .addOption(new Option("-f, --format <format>", "form of the document").choices(["json"]).default("json"))
    .addOption(new Option("-o, --out <file>", "write it into this file, instead of to stdout"))
    .addOption(new Option("--allow-outside", "let paths of the task leave its folder"))
    .action(async (file: string, flags: TaskExportFlags) => {
      const { executeTaskExport } = await import("../execute-task-export.ts");
      setExitCode(await executeTaskExport(file, flags));
    });
}
