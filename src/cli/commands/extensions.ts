import { Argument, Command, Option } from "commander";
import type { AddFlags, ExtensionFlags, PruneFlags } from "../execute-extensions.ts";
import type { ContractFlags } from "../execute-extensions-test.ts";
import { age, duration, jsonObject, sha256 } from "../flags.ts";

type SetExitCode = (code: number) => void;

/** `mcpvals extensions`: the versions of extensions that the lock of this folder names, and the cache. */
export function extensionsCommand(setExitCode: SetExitCode): Command {
  const command = new Command("extensions").description(
    "fetch, lock and look after the extensions of tasks, and test one that you write",
  );
  const commands = [listing, adding, updating, pinning, verifying, pruning, testing];
  for (const create of commands)
    command.addCommand(
      create(setExitCode)
        .addOption(new Option("--json", "print the answer as JSON"))
        .exitOverride()
        .showSuggestionAfterError(),
    );
  return command;
}

function listing(setExitCode: SetExitCode): Command {
  return withCache(new Command("list"))
    .description("show what the lock names and what is cached, without the network")
    .action(async (flags: ExtensionFlags) => {
      const { executeExtensionsList } = await import("../execute-extensions.ts");
      setExitCode(await executeExtensionsList(flags));
    });
}

function adding(setExitCode: SetExitCode): Command {
  return withSource(new Command("add"))
    .description("fetch a package, verify its files and lock it")
    .addArgument(new Argument("<package>", "github.com/ORG/REPO@VERSION or npm:NAME@VERSION, as in tasks"))
    .addOption(new Option("--sha256 <hex>", "SHA-256 that the fetched file must have").argParser(sha256))
    .action(async (name: string, flags: AddFlags) => {
      const { executeExtensionsAdd } = await import("../execute-extensions.ts");
      setExitCode(await executeExtensionsAdd(name, flags));
    });
}

function updating(setExitCode: SetExitCode): Command {
  return withSource(new Command("update"))
    .description("lock the newest versions that match what is written in tasks")
    .addArgument(new Argument("[names...]", "packages, or the last parts of their names; all unless given"))
    .action(async (names: readonly string[], flags: ExtensionFlags) => {
      const { executeExtensionsUpdate } = await import("../execute-extensions.ts");
      setExitCode(await executeExtensionsUpdate(names, flags));
    });
}

function pinning(setExitCode: SetExitCode): Command {
  return withSource(new Command("pin"))
    .description("lock one version, whatever tasks say; without the network when it is cached")
    .addArgument(new Argument("<name@version>", "a package of the lock, or the last part of its name"))
    .action(async (target: string, flags: ExtensionFlags) => {
      const { executeExtensionsPin } = await import("../execute-extensions.ts");
      setExitCode(await executeExtensionsPin(target, flags));
    });
}

function verifying(setExitCode: SetExitCode): Command {
  return withCache(new Command("verify"))
    .description("compare cached files with the lock; exit 1 when they differ, 3 when not all are there")
    .action(async (flags: ExtensionFlags) => {
      const { executeExtensionsVerify } = await import("../execute-extensions.ts");
      setExitCode(await executeExtensionsVerify(flags));
    });
}

function pruning(setExitCode: SetExitCode): Command {
  return withCache(new Command("prune"))
    .description("remove cached versions that were not used for long and that this lock does not name")
    .addOption(
      new Option("--older-than <age>", "how long unused, such as 12h or 30d (default: 30d)").argParser(age),
    )
    .addOption(new Option("--dry-run", "only show what would be removed"))
    .action(async (flags: PruneFlags) => {
      const { executeExtensionsPrune } = await import("../execute-extensions.ts");
      setExitCode(await executeExtensionsPrune(flags));
    });
}

function testing(setExitCode: SetExitCode): Command {
  return new Command("test")
    .description("try whether a program does what an extension must do; exit 1 when it does not")
    .addArgument(new Argument("<program>", "the program, a folder with an extension.yaml, or mcpvals:NAME"))
    .addOption(
      new Option("--config <json>", "settings that it is started with, a JSON object").argParser(jsonObject),
    )
    .addOption(
      new Option("--timeout <duration>", "longest that one answer may take (default: 10s)").argParser(
        duration,
      ),
    )
    .action(async (program: string, flags: ContractFlags) => {
      const { executeExtensionsTest } = await import("../execute-extensions-test.ts");
      setExitCode(await executeExtensionsTest(program, flags));
    });
}

function withCache(command: Command): Command {
  return command.addOption(
    new Option("--cache-dir <dir>", "folder that keeps extensions (default: ~/.mcpvals/extensions)"),
  );
}

function withSource(command: Command): Command {
  return withCache(command).addOption(
    new Option("--releases-url <url>", "address of the API that lists releases, such as a mirror"),
  );
}
