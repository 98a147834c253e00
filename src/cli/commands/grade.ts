import { resolve } from "node:path";
import type { Command } from "commander";
import { McpvalsError } from "../../base/error.ts";
import { exact } from "../../base/json.ts";
import type { Thresholds } from "../../model/eval.ts";
import { load } from "../../formats/load.ts";
import { gradeRun } from "../../run/grade-run.ts";
import { transcriptAgent } from "../../model/agent.ts";
import { defaultRunsFolder, openRun, type OpenedRun } from "../../store/run-folder.ts";
import {
  addLoadingFlags,
  addMaxWarningsFlag,
  addPricesFlag,
  addReporterFlag,
  addThresholdFlag,
  loadOptions,
  type SetExitCode,
  type SourceFlags,
} from "../flags.ts";
import { localRun } from "../remote.ts";
import { exitCodeOf, openReporters } from "../open-reporters.ts";
import { abortOnInterrupt, workingFolder, writeNotes, hideSecrets } from "../terminal.ts";

interface GradeFlags extends Pick<
  SourceFlags,
  "config" | "judge" | "mcpConfig" | "prices" | "allowOutside" | "env"
> {
  readonly output?: string;
  readonly reporter?: readonly string[];
  readonly threshold?: Thresholds;
  readonly maxWarnings?: number;
  readonly llm?: boolean;
  readonly askJudges?: boolean;
}

/** `mcpvals grade`: grades the record of a run again, as a new run. */
export function define(command: Command, setExitCode: SetExitCode): void {
  const described = command
    .argument("[run]", "id, start of an id, folder, or latest", "latest")
    .option(
      "-c, --config <file>",
      "file that declares the graders (default: what the run has run); of imported sessions, a config whose graders grade all of them",
    )
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .option("--ask-judges", "ask judges again, also where neither they nor their graders have changed")
    .option("--llm", "grade workflows with a language model too");
  addPricesFlag(addLoadingFlags(addThresholdFlag(addMaxWarningsFlag(addReporterFlag(described))))).action(
    async (name: string, flags: GradeFlags) => setExitCode(await execute(name, flags)),
  );
}

/** Returns the exit code. Throws McpvalsError of kind `usage` before anything is graded. */
async function execute(name: string, flags: GradeFlags): Promise<number> {
  using interrupt = abortOnInterrupt();
  const { signal } = interrupt;
  const cwd = workingFolder();
  const stored = await openRun(
    resolve(flags.output ?? defaultRunsFolder),
    await localRun(name, flags.output),
  );
  const { agents, tasks } = stored.plan;
  const loaded = await load({
    ...loadOptions([sourceOf(stored, flags)], flags),
    ...(agents.some(({ type }) => type === transcriptAgent) ? { sessions: tasks } : {}),
    cwd,
    signal,
    lookOnly: true,
    ...(flags.llm === true ? { judge: true } : {}),
  });
  hideSecrets(loaded.secrets);
  writeNotes(loaded);
  const specs = flags.reporter ?? loaded.eval.reporters;
  const { askJudges, threshold: thresholds, maxWarnings, output } = flags;
  const { result, failures, notes } = await gradeRun(stored, loaded, {
    cwd,
    reporters: openReporters(specs.length === 0 ? ["console"] : specs),
    signal,
    ...exact({ askJudges, thresholds, maxWarnings, output }),
  });
  writeNotes({ notes });
  return exitCodeOf(result, failures);
}

/** The file that declares the graders. */
function sourceOf({ id, source, plan: { tasks } }: OpenedRun, { config }: GradeFlags): string {
  if (tasks.some(({ form }) => form === "check"))
    throw new McpvalsError(
      "usage/invalid-option",
      `the run ${id} is a check, which no file declares graders for`,
      {
        hint: "Check the server again with mcpvals check.",
      },
    );
  const file = config ?? source;
  if (file !== undefined) return file;
  throw new McpvalsError("usage/invalid-option", `the run ${id} does not say what it has run`, {
    hint: "Name the file that declares its tasks and graders with --config.",
  });
}
