import { resolve } from "node:path";
import type { Command } from "commander";
import { McpvalsError } from "../../base/error.ts";
import { lacksVerdict, taskRates } from "../../report/rates.ts";
import { replayRun } from "../../report/replay.ts";
import { defaultRunsFolder, readRun } from "../../store/run-folder.ts";
import type { SetExitCode } from "../flags.ts";
import { localRun } from "../remote.ts";
import { addResumeFlags, type ResumeFlags, runAgain } from "./resume.ts";

interface RetryFlags extends ResumeFlags {
  readonly errors?: boolean;
  readonly flaky?: boolean;
}

/** `mcpvals retry`: a new run that tries again what had no verdict, or the tasks with different verdicts. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addResumeFlags(command)
    .option(
      "--errors",
      "run the trials that have no verdict, such as after an error or a timeout; those with one are taken over",
    )
    .option("--flaky", "run all trials of the tasks that passed in some trials and failed in others")
    .action(async (name: string, flags: RetryFlags) => setExitCode(await execute(name, flags)));
}

/** Returns the exit code of the new run. Throws McpvalsError of kind `usage` before anything starts. */
async function execute(name: string, { errors, flaky, ...flags }: RetryFlags): Promise<number> {
  if ((errors === true) === (flaky === true))
    throw new McpvalsError("usage/invalid-option", "say what is to be tried again", {
      hint: "Give --errors or --flaky.",
    });
  const run = await readRun(resolve(flags.output ?? defaultRunsFolder), await localRun(name, flags.output));
  const { trials } = replayRun(run).result;
  if (run.durationMs === undefined || run.interrupted === true)
    throw new McpvalsError("usage/invalid-option", `the run ${run.id} has not ended`, {
      hint: `Let it end; if it was interrupted: npx mcpvals resume ${run.id}`,
    });
  if (errors === true) {
    if (trials.some(lacksVerdict)) return runAgain({ run, use: "errors" }, flags);
    throw nothing(`every trial of the run ${run.id} has a verdict, or was skipped on purpose`);
  }
  const names = taskRates(trials).flatMap(({ task, flaky: isFlaky }) => (isFlaky === true ? task : []));
  if (names.length === 0) throw nothing(`no task of the run ${run.id} is flaky`);
  return runAgain({ run, use: "none" }, flags, new Set(names));
}

function nothing(message: string): McpvalsError {
  return new McpvalsError("usage/no-match", message, { hint: "There is nothing to try again." });
}
