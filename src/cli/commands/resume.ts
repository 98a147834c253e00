import { resolve } from "node:path";
import type { Command } from "commander";
import * as z from "zod";
import { listNames } from "../../base/did-you-mean.ts";
import { McpvalsError } from "../../base/error.ts";
import { exitCode } from "../../report/result.ts";
import type { EarlierRun } from "../../run/run.ts";
import { defaultRunsFolder, openRun, type OpenedRun } from "../../store/run-folder.ts";
import { readResultHead } from "../../store/run-files.ts";
import {
  addBudgetFlags,
  addReporterFlag,
  type BudgetFlags,
  budgetFlags,
  type SetExitCode,
  variable,
  wholeNumber,
} from "../flags.ts";
import { remoteName } from "../remote.ts";
import { abortOnInterrupt, workingFolder, writeError } from "../terminal.ts";
import { type RunFlags, runOnce } from "./run.ts";

export interface ResumeFlags extends BudgetFlags {
  readonly output?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly reporter?: readonly string[];
  readonly concurrency?: number;
  readonly quiet?: boolean;
}

/** `mcpvals resume`: runs what an interrupted or killed run has not finished. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addBudgetFlags(addResumeFlags(command)).action(async (name: string, flags: ResumeFlags) =>
    setExitCode(await execute(name, flags)),
  );
}

/** Adds the run that is named, and what may differ from how it was started. */
export function addResumeFlags(command: Command): Command {
  return addReporterFlag(
    command
      .argument("[run]", "id, start of an id, folder, or latest", "latest")
      .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
      .option("-e, --env <name=value>", "the variables that the run was started with; repeatable", variable)
      .option("-j, --concurrency <n>", "number of trials that run at once", wholeNumber(1024))
      .option("-q, --quiet", "on the console only what did not pass, and the last lines"),
  );
}

/** Returns the exit code of the run. Throws McpvalsError of kind `usage` before anything starts. */
async function execute(name: string, flags: ResumeFlags): Promise<number> {
  const remote = remoteName(name);
  if (remote !== undefined)
    return (await (await import("./attach.ts")).followRemotely(remote, flags, "resume")).code;
  const runs = resolve(flags.output ?? defaultRunsFolder);
  const stored = await openRun(runs, name);
  const wasStopped = stored.interrupted === true || stored.budget?.usedUp !== undefined;
  if (stored.durationMs !== undefined && !wasStopped) {
    const { verdict } = readResultHead(stored.folder);
    writeError(`The run ${stored.id} has ended, so there is nothing to resume: ${verdict}.`);
    if (flags.reporter !== undefined)
      return (await import("./show.ts")).showRun(stored, flags.reporter, { coverage: false });
    return exitCode(verdict);
  }
  return runAgain({ run: stored, use: "resume" }, flags);
}

/**
 * Runs the command line of a run again, with the trials of it that are used; `names` are the only tasks. Returns the exit code. Throws
 * McpvalsError of kind `usage` before anything starts.
 */
export async function runAgain(
  earlier: EarlierRun,
  { env = {}, ...changed }: ResumeFlags,
  only?: ReadonlySet<string>,
): Promise<number> {
  const stored = earlier.run;
  const { sources, flags, names, env: variables } = commandOf(stored);
  const { backend } = flags;
  if (earlier.use === "resume" && typeof backend === "string")
    throw new McpvalsError("store/not-resumable", `the run ${stored.id} is in the database ${backend}`, {
      hint: `Follow it, or let it go on, there: npx mcpvals attach postgres://…#${stored.id}, or resume.`,
    });
  const missing = variables.filter((variableName) => !Object.hasOwn(env, variableName));
  if (missing.length > 0)
    throw new McpvalsError(
      "usage/invalid-option",
      `the run ${stored.id} was started with variables whose values are not kept: ${listNames(missing)}`,
      { hint: `Give them again: ${missing.map((each) => `--env ${each}=VALUE`).join(" ")}` },
    );
  const dropped = changed.withoutBudget === true ? budgetFlags : [];
  const kept = Object.entries(flags).filter(([flag]) => !dropped.includes(flag));
  using interrupt = abortOnInterrupt();
  const selected = only ?? (names && new Set(names));
  const { code } = await runOnce(
    sources,
    {
      ...(Object.fromEntries(kept) as object as RunFlags),
      // What it left out is tried now.
      ...(earlier.use !== "resume" && { bail: false }),
      env,
      open: false,
      ...changed,
    },
    { signal: interrupt.signal, listeners: [], earlier, ...(selected && { selection: { names: selected } }) },
  );
  return code;
}

const texts = z.array(z.string());
const commandSchema = z.object({
  cwd: z.string(),
  sources: texts,
  flags: z.record(z.string(), z.unknown()),
  env: texts,
  names: texts.optional(),
});

/** How a run was started. Throws `store/not-resumable` where it does not say, or another folder is needed. */
function commandOf({ id, command }: OpenedRun): z.infer<typeof commandSchema> {
  const read = commandSchema.safeParse(command);
  if (!read.success)
    throw new McpvalsError("store/not-resumable", `the run ${id} does not say how it was started`, {
      hint: "Only runs of `mcpvals run` can be resumed, from the version on that introduced `resume`.",
    });
  const { cwd } = read.data;
  if (cwd === workingFolder()) return read.data;
  throw new McpvalsError("store/not-resumable", `the run ${id} was started in another folder`, {
    hint: `Resume it there: cd ${cwd}`,
  });
}
