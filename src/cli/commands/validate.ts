import { Argument, Command, Option } from "commander";
import { namedConfig, variable } from "../options.ts";

interface ValidateFlags {
  readonly config?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly json?: boolean;
}

/** `mcpvals validate`: checks a config without starting anything. */
export function validateCommand(setExitCode: (code: number) => void): Command {
  return new Command("validate")
    .description("check a config without starting anything")
    .addArgument(new Argument("[config]", "config file or its folder; found upwards from here unless given"))
    .addOption(new Option("-c, --config <file>", "the same, as an option"))
    .addOption(
      new Option("-e, --env <name=value>", "variable for the config; repeatable").argParser(variable),
    )
    .addOption(new Option("--json", "print the outcome as JSON"))
    .action(async (file: string | undefined, flags: ValidateFlags) => {
      const { executeValidate } = await import("../execute-validate.ts");
      setExitCode(
        await executeValidate(namedConfig(file, flags.config), {
          env: flags.env ?? {},
          json: flags.json ?? false,
        }),
      );
    });
}
