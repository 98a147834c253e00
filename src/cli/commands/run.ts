import { Command, Option } from "commander";
import { addSourceFlags, collect, duration, type RunFlags, wholeNumber } from "../flags.ts";

/** `mcpvals run`: evaluates and sets the exit code of the verdict. */
export function runCommand(setExitCode: (code: number) => void): Command {
  const command = new Command("run")
    .alias("eval")
    .description("run the tasks, workflows and tool tests of a config, an Eval or task files");
  return addSourceFlags(command)
    .addOption(new Option("-n, --trials <n>", "attempts of each task").argParser(wholeNumber(10_000)))
    .addOption(new Option("-j, --concurrency <n>", "trials at once").argParser(wholeNumber(1024)))
    .addOption(
      new Option("-r, --reporter <name[=file]>", "console, json or junit; repeatable").argParser(collect),
    )
    .addOption(new Option("-o, --output <dir>", "folder that keeps the runs (default: .mcpvals/runs)"))
    .addOption(new Option("--llm", "let a language model judge workflows too"))
    .addOption(
      new Option(
        "--timeout <duration>",
        "longest a whole trial may take, such as 30s; what is inside it too",
      ).argParser(duration),
    )
    .addOption(new Option("--strict", "a task that lacks what it requires is an error, not skipped"))
    .addOption(new Option("--frozen", "use only extensions that mcp-eval.lock names, and do not change it"))
    .addOption(
      new Option(
        "--releases-url <url>",
        "address of the API that lists releases of extensions, such as a mirror",
      ),
    )
    .addOption(new Option("--bail", "stop after the first trial that does not pass"))
    .action(async (sources: readonly string[], flags: RunFlags) => {
      const { executeRun } = await import("../execute-run.ts");
      setExitCode(await executeRun(sources, flags));
    });
}
