import { Argument, Command, Option } from "commander";
import { namedConfig, variable } from "../options.ts";

interface ListFlags {
  readonly config?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly json?: boolean;
}

/** `mcpvals list`: shows the workflows and tool tests of a config without starting anything. */
export function listCommand(setExitCode: (code: number) => void): Command {
  return new Command("list")
    .description("show the workflows and tool tests of a config, starting nothing")
    .addArgument(new Argument("[config]", "config file or its folder; found upwards from here unless given"))
    .addOption(new Option("-c, --config <file>", "the same, as an option"))
    .addOption(
      new Option("-e, --env <name=value>", "variable for the config; repeatable").argParser(variable),
    )
    .addOption(new Option("--json", "print the list as JSON"))
    .action(async (file: string | undefined, flags: ListFlags) => {
      const { executeList } = await import("../execute-list.ts");
      setExitCode(
        await executeList(namedConfig(file, flags.config), {
          env: flags.env ?? {},
          json: flags.json ?? false,
        }),
      );
    });
}
