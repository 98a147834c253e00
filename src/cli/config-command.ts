import { Argument, Command, Option } from "commander";
import { namedConfig, variable } from "./options.ts";

interface ConfigFlags {
  readonly config?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly json?: boolean;
}

/** What a command that only reads a config is asked for. */
export interface ConfigQuestion {
  /** The config as named; undefined: the nearest one. */
  readonly source: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly json: boolean;
}

/** Makes a command that reads a config and starts nothing; `answer` carries it out. */
export function configCommand(name: string, answer: (question: ConfigQuestion) => Promise<void>): Command {
  return new Command(name)
    .addArgument(new Argument("[config]", "config file or its folder; found upwards from here unless given"))
    .addOption(new Option("-c, --config <file>", "the same, as an option"))
    .addOption(
      new Option("-e, --env <name=value>", "variable for the config; repeatable").argParser(variable),
    )
    .addOption(new Option("--json", "print the answer as JSON"))
    .action((file: string | undefined, flags: ConfigFlags) =>
      answer({
        source: namedConfig(file, flags.config),
        env: flags.env ?? {},
        json: flags.json ?? false,
      }),
    );
}
