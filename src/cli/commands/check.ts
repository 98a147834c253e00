import type { Command } from "commander";
import { exitCode } from "../../core/report/trial-result.ts";
import { loadTarget } from "../../load/target.ts";
import { checkServers, defaultCallMs } from "../../run/check-servers.ts";
import { addReporterFlag, type SetExitCode } from "../flags.ts";
import { openReporters } from "../open-reporters.ts";
import { abortOnInterrupt, workingFolder, writeNotes, writeReportFailures } from "../terminal.ts";

/** The flags of `check` as commander gives them. */
interface CheckFlags {
  readonly calls: "safe" | "all" | "none";
  readonly disable?: readonly string[];
  readonly reporter?: readonly string[];
  readonly output?: string;
}

/** `mcpvals check`: reports what is wrong with servers. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command.argument(
    "[target...]",
    "a URL, a file with servers, or after -- a command (default: the config found upwards)",
  );
  addReporterFlag(command)
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .option("--calls <which>", "tools to call: safe (annotated readOnlyHint: true), all, none", "safe")
    .action(async (target: readonly string[], flags: CheckFlags) => {
      const { rawArgs = [] } = command.parent as { readonly rawArgs?: readonly string[] };
      setExitCode(await execute(target, flags, rawArgs.includes("--")));
    });
}

async function execute(target: readonly string[], flags: CheckFlags, isCommand: boolean): Promise<number> {
  const { calls, disable = [], reporter = ["console"], output } = flags;
  const cwd = workingFolder();
  using interrupt = abortOnInterrupt(output);
  const { signal } = interrupt;
  const loaded = await loadTarget({ target, isCommand, cwd, env: {}, signal });
  writeNotes(loaded);
  const outcome = await checkServers(loaded, {
    calls,
    disable,
    callMs: defaultCallMs,
    cwd,
    signal,
    reporters: openReporters(reporter),
    ...(output === undefined ? {} : { output }),
  });
  writeReportFailures(outcome.failures);
  return exitCode(outcome.result.verdict);
}
