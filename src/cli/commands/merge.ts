import { join, resolve } from "node:path";
import type { Command } from "commander";
import { exact } from "../../base/json.ts";
import { mergeRuns } from "../../run/merge-runs.ts";
import { runFolders } from "../../store/run-files.ts";
import { defaultRunsFolder, openRun, type OpenedRun } from "../../store/run-folder.ts";
import { addReporterFlag, type SetExitCode } from "../flags.ts";
import { exitCodeOf, openReporters } from "../open-reporters.ts";
import { workingFolder } from "../terminal.ts";

interface MergeFlags {
  readonly output?: string;
  readonly reporter?: readonly string[];
}

/** `mcpvals merge`: one run of the parts that `run --shard` has run on several machines. */
export function define(command: Command, setExitCode: SetExitCode): void {
  const described = command
    .argument("<runs...>", "ids or folders of the parts, or folders that have nothing but them")
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)");
  addReporterFlag(described).action(async (names: readonly string[], flags: MergeFlags) =>
    setExitCode(await execute(names, flags)),
  );
}

/** Returns the exit code. Throws McpvalsError of kind `usage` before anything is written. */
async function execute(
  names: readonly string[],
  { output, reporter = ["console"] }: MergeFlags,
): Promise<number> {
  const runs = resolve(output ?? defaultRunsFolder);
  const parts: OpenedRun[] = [];
  for (const name of names) {
    const inside = (await runFolders(resolve(name))).map((id) => join(name, id));
    for (const run of inside.length === 0 ? [name] : inside) parts.push(await openRun(runs, run));
  }
  const { result, failures } = await mergeRuns(parts, {
    cwd: workingFolder(),
    reporters: openReporters(reporter),
    ...exact({ output }),
  });
  return exitCodeOf(result, failures);
}
