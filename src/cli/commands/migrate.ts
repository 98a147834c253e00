import { Argument, Command, Option } from "commander";
import type { MigrateFlags } from "../execute-migrate.ts";

/** `mcpvals migrate`: writes tasks of the older forms as mcp-eval/v1. */
export function migrateCommand(setExitCode: (code: number) => void): Command {
  return new Command("migrate")
    .description("write tasks of the older forms as mcp-eval/v1, comments kept")
    .addArgument(new Argument("<files...>", "files of kind Task"))
    .addOption(
      new Option("-w, --write", "write each task into its own file, instead of to stdout").conflicts("out"),
    )
    .addOption(new Option("--out <dir>", "write the tasks into this folder, each by the name of its file"))
    .addOption(new Option("-f, --force", "let --out replace files that are there"))
    .addOption(new Option("--eval <file>", "take the packages of extensions from this Eval"))
    .addOption(new Option("--allow-outside", "let paths of tasks leave their folders"))
    .action(async (files: readonly string[], flags: MigrateFlags) => {
      const { executeMigrate } = await import("../execute-migrate.ts");
      setExitCode(await executeMigrate(files, flags));
    });
}
