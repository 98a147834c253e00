import { Argument, Command, Option } from "commander";
import { collect, duration, variable, wholeNumber } from "../options.ts";
import type { RunFlags } from "../run-flags.ts";

/** `mcpvals run`: evaluates and sets the exit code of the verdict. */
export function runCommand(setExitCode: (code: number) => void): Command {
  return new Command("run")
    .alias("eval")
    .description("run the workflows and tool tests of a config")
    .addArgument(new Argument("[config]", "config file or its folder; found upwards from here unless given"))
    .addOption(new Option("-c, --config <file>", "the same, as an option"))
    .addOption(
      new Option("-a, --agent <name>", "agent of the config, or a model id; repeatable").argParser(collect),
    )
    .addOption(
      new Option("-t, --task <glob>", "only tasks whose name matches; repeatable").argParser(collect),
    )
    .addOption(new Option("-n, --trials <n>", "attempts of each task").argParser(wholeNumber(10_000)))
    .addOption(new Option("-j, --concurrency <n>", "trials at once").argParser(wholeNumber(1024)))
    .addOption(
      new Option("-r, --reporter <name[=file]>", "console, json or junit; repeatable").argParser(collect),
    )
    .addOption(new Option("-o, --output <dir>", "folder that keeps the runs (default: .mcpvals/runs)"))
    .addOption(new Option("--llm", "let a language model judge workflows too"))
    .addOption(
      new Option(
        "-e, --env <name=value>",
        "variable for the config and its local servers; repeatable",
      ).argParser(variable),
    )
    .addOption(
      new Option(
        "--timeout <duration>",
        "longest a whole trial may take, such as 30s; what is inside it too",
      ).argParser(duration),
    )
    .addOption(new Option("--bail", "stop after the first trial that does not pass"))
    .action(async (file: string | undefined, flags: RunFlags) => {
      const { executeRun } = await import("../execute-run.ts");
      setExitCode(await executeRun(file, flags));
    });
}
