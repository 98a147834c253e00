import { type Command, Option } from "commander";
import { configCommand } from "../config-command.ts";
import type { ValidateRunFlags } from "../execute-validate-run.ts";
import { duration, wholeNumber } from "../flags.ts";

interface ValidateFlags extends ValidateRunFlags {
  readonly run?: boolean;
}

/** `mcpvals validate`: checks files without starting anything, or with `--run` proves their tasks. */
export function validateCommand(setExitCode: (code: number) => void): Command {
  const command = configCommand("validate", async (question) => {
    const { run = false, ...flags } = command.opts<ValidateFlags>();
    if (run) {
      const { executeValidateRun } = await import("../execute-validate-run.ts");
      setExitCode(await executeValidateRun(question, flags));
    } else {
      const { executeValidate } = await import("../execute-validate.ts");
      setExitCode(await executeValidate(question));
    }
  });
  return command
    .description("check a config, an Eval or tasks without starting anything; with --run, prove the tasks")
    .addOption(
      new Option(
        "--run",
        "run each task twice: doing nothing must fail, its own solution must pass, both must leave all as it was",
      ),
    )
    .addOption(
      new Option("-j, --concurrency <n>", "with --run: tasks at once (default: 4)").argParser(
        wholeNumber(1024),
      ),
    )
    .addOption(
      new Option("-o, --output <dir>", "with --run: folder that keeps the runs (default: none is kept)"),
    )
    .addOption(
      new Option("--timeout <duration>", "with --run: longest a whole trial may take").argParser(duration),
    )
    .addOption(
      new Option("--strict", "with --run: a task that lacks what it requires is an error, not skipped"),
    )
    .addOption(new Option("--frozen", "with --run: use only extensions that mcp-eval.lock names"))
    .addOption(
      new Option("--releases-url <url>", "with --run: address of the API that lists releases of extensions"),
    );
}
