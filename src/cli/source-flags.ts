import { Argument, type Command, Option } from "commander";
import type { LoadOptions } from "../config/load.ts";
import { agentPresets } from "../core/formats/agent-model.ts";
import type { Filters } from "../prepare.ts";
import { collect, label, namedSources, variable } from "./options.ts";

/** The flags that say what is evaluated, as commander gives them. */
export interface SourceFlags {
  readonly config?: string;
  readonly task?: readonly string[];
  readonly tag?: readonly string[];
  readonly label?: readonly string[];
  readonly difficulty?: readonly string[];
  readonly variant?: readonly string[];
  readonly agent?: readonly string[];
  readonly judge?: string;
  readonly mcpConfig?: string;
  readonly allowOutside?: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

/** Adds the arguments and flags that say what is evaluated. */
export function addSourceFlags(command: Command): Command {
  return command
    .addArgument(
      new Argument(
        "[sources...]",
        "a config, an Eval, or tasks: files, folders, globs; the config found upwards from here unless given",
      ),
    )
    .addOption(new Option("-c, --config <file>", "the same, as an option"))
    .addOption(
      new Option("-t, --task <glob>", "only tasks whose name matches; repeatable").argParser(collect),
    )
    .addOption(new Option("--tag <tag>", "only tasks with this tag; repeatable").argParser(collect))
    .addOption(
      new Option(
        "-l, --label <key=value>",
        "only tasks with this label; repeatable: one key, any of its values",
      ).argParser(label),
    )
    .addOption(
      new Option("--difficulty <level>", "only tasks of this difficulty; repeatable").argParser(collect),
    )
    .addOption(
      new Option("--variant <name>", "only this variant of the servers; repeatable").argParser(collect),
    )
    .addOption(
      new Option(
        "-a, --agent <name>",
        `agent of the file, a model id, oracle, null or a preset (${agentPresets.join(", ")}); repeatable`,
      ).argParser(collect),
    )
    .addOption(new Option("--judge <model>", "model that judges, whatever the files say"))
    .addOption(new Option("--mcp-config <file>", "file with mcpServers, for tasks and Evals"))
    .addOption(new Option("--allow-outside", "let paths of tasks leave their folders"))
    .addOption(
      new Option(
        "-e, --env <name=value>",
        "variable for the files and their local servers; repeatable",
      ).argParser(variable),
    );
}

/** What is to be loaded, without the folder that relative paths start from. */
export function loadOptions(sources: readonly string[], flags: SourceFlags): Omit<LoadOptions, "cwd"> {
  return {
    sources: namedSources(sources, flags.config),
    env: flags.env ?? {},
    agents: flags.agent ?? [],
    judgeModel: flags.judge,
    mcpConfig: flags.mcpConfig,
    allowOutside: flags.allowOutside ?? false,
  };
}

/** Which of the tasks and variants are meant. */
export function taskFilters({ task, tag, label: labels, difficulty, variant }: SourceFlags): Filters {
  return { tasks: task, tags: tag, labels, difficulties: difficulty, variants: variant };
}
