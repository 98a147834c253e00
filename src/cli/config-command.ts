import { Command, Option } from "commander";
import type { LoadOptions } from "../load/load.ts";
import type { Filters } from "../run/prepare.ts";
import { addSourceFlags, loadOptions, type SourceFlags, taskFilters } from "./flags.ts";

interface ConfigFlags extends SourceFlags {
  readonly json?: boolean;
}

/** What a command that only reads files is asked for. */
export interface ConfigQuestion {
  readonly load: Omit<LoadOptions, "cwd">;
  readonly filters: Filters;
  readonly json: boolean;
}

/** Makes a command that reads what is to be evaluated and starts nothing; `answer` carries it out. */
export function configCommand(name: string, answer: (question: ConfigQuestion) => Promise<void>): Command {
  return addSourceFlags(new Command(name))
    .addOption(new Option("--json", "print the answer as JSON"))
    .action((sources: readonly string[], flags: ConfigFlags) =>
      answer({
        load: loadOptions(sources, flags),
        filters: taskFilters(flags),
        json: flags.json ?? false,
      }),
    );
}
