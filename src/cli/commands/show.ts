import { Argument, Command, Option } from "commander";
import { collect, type ShowFlags } from "../flags.ts";

/** `mcpvals show`: reports a finished or cut-off run again, from its journal. */
export function showCommand(setExitCode: (code: number) => void): Command {
  return new Command("show")
    .description("report a recorded run again, and exit as it did, or show the trace of one trial")
    .addArgument(new Argument("[run]", "id, start of an id, folder, or latest").default("latest"))
    .addOption(new Option("-o, --output <dir>", "folder that keeps the runs (default: .mcpvals/runs)"))
    .addOption(new Option("-t, --trial <id>", "show every event of this trial, such as t1"))
    .addOption(
      new Option("-r, --reporter <name[=file]>", "console, json or junit; repeatable").argParser(collect),
    )
    .addOption(
      new Option("--tools", "every use of a tool by an agent, as JSON Lines").conflicts(["reporter", "json"]),
    )
    .addOption(new Option("--json", "with --trial: the events as JSON Lines; without: the result document"))
    .action(async (name: string, flags: ShowFlags) => {
      const { executeShow } = await import("../execute-show.ts");
      setExitCode(await executeShow(name, flags));
    });
}
