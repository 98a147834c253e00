import type { Command } from "commander";
import { exitCode } from "../../core/report/trial-result.ts";
import { loadTarget, type Target } from "../../load/target.ts";
import { checkServers, defaultCallMs } from "../../run/check-servers.ts";
import {
  addReporterFlag,
  addTargetFlags,
  type SetExitCode,
  splitCommand,
  type TargetFlags,
  targetOf,
} from "../flags.ts";
import { openReporters } from "../open-reporters.ts";
import {
  abortOnInterrupt,
  askAtTerminal,
  workingFolder,
  writeNotes,
  writeReportFailures,
} from "../terminal.ts";

/** The flags of `check` as commander gives them. */
interface CheckFlags extends TargetFlags {
  readonly calls: "safe" | "all" | "none";
  readonly disable?: readonly string[];
  readonly reporter?: readonly string[];
  readonly output?: string;
}

/** `mcpvals check`: reports what is wrong with servers. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addReporterFlag(addTargetFlags(command))
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .option("--calls <which>", "tools to call: safe (annotated readOnlyHint: true), all, none", "safe")
    .action(async (words: readonly string[], flags: CheckFlags) =>
      setExitCode(await execute(targetOf(splitCommand(words, command), flags), flags)),
    );
}

async function execute(target: Target, flags: CheckFlags): Promise<number> {
  const { calls, disable = [], reporter = ["console"], output } = flags;
  const cwd = workingFolder();
  using interrupt = abortOnInterrupt(output);
  const { signal } = interrupt;
  const loaded = await loadTarget(target, { cwd, signal, ask: askAtTerminal() });
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
