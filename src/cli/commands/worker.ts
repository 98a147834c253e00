import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { McpvalsError } from "../../base/error.ts";
import { exact } from "../../base/json.ts";
import { listNames } from "../../base/did-you-mean.ts";
import { environment } from "../../formats/environment.ts";
import type { SubmittedRun } from "../../store/postgres/runs.ts";
import type { WorkerSession } from "../../run/remote/worker-session.ts";
import { duration, nameList, type SetExitCode, wholeNumber } from "../flags.ts";
import { databaseUrl, writeNote } from "../remote.ts";
import { abortInStages, workingFolder } from "../terminal.ts";
import { type RunFlags, runOnce } from "./run.ts";

interface WorkerFlags {
  readonly concurrency?: number;
  readonly labels?: readonly string[];
  readonly folder?: string;
  readonly idle?: number;
}

/** `mcpvals worker`: runs trials of runs in a database until it is ended. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument("[url]", "postgres://USER:PASSWORD@HOST:PORT/DATABASE (default: MCPVALS_DATABASE_URL)")
    .option(
      "-j, --concurrency <n>",
      "number of trials that run at once (default: as many as there are processors)",
      wholeNumber(1024),
    )
    .option("--labels <names>", "what this worker has, such as gpu,k8s, for runs that ask for it", nameList)
    .option("--folder <dir>", "folder that the files of runs are unpacked in (default: .mcpvals/worker)")
    .option(
      "--idle <duration>",
      "end when there was nothing to do, or the database did not answer, for so long, such as 5m (default: never)",
      duration,
    )
    .action(async (url: string | undefined, flags: WorkerFlags) => setExitCode(await execute(url, flags)));
}

const stages = [
  "Interrupted: takes no further trial, and ends when those that run have ended. Interrupt again to end these.",
  "Ending the running trials. Other workers take them: at once where the database answers, else when it has not heard of this one for 15 seconds.",
] as const;

/** Returns the exit code. Throws McpvalsError before anything starts. */
async function execute(url: string | undefined, flags: WorkerFlags): Promise<number> {
  const {
    concurrency = availableParallelism(),
    labels = [],
    folder = join(".mcpvals", "worker"),
    idle,
  } = flags;
  const { runWorker } = await import("../../run/remote/worker.ts");
  using interrupt = abortInStages(stages);
  await runWorker(databaseUrl(url), {
    concurrency,
    labels,
    folder: join(workingFolder(), folder),
    draining: interrupt.first,
    ending: interrupt.second,
    ...exact({ idleMs: idle }),
    execute: (run, session, { folder: cwd, ending: signal }) => runTaken(run, session, { cwd, signal }),
    onNote: writeNote,
  });
  return 0;
}

/** Runs the trials that a session takes, by the command line of their run. Throws what keeps it from running any. */
async function runTaken(
  { head: { command } }: SubmittedRun,
  session: WorkerSession,
  { cwd, signal }: { readonly cwd: string; readonly signal: AbortSignal },
): Promise<void> {
  const given = command.env.map((name) => [name, environment()[name]] as const);
  const missing = given.filter(([, value]) => value === undefined).map(([name]) => name);
  if (missing.length > 0)
    throw new McpvalsError(
      "worker/refused",
      `the run needs variables that are not set here: ${listNames(missing)}`,
      {
        hint: "Set them in the environment of this worker.",
      },
    );
  await runOnce(
    command.sources,
    {
      ...(command.flags as object as RunFlags),
      env: Object.fromEntries(given) as Record<string, string>,
      open: false,
      quiet: true,
    },
    {
      signal,
      listeners: [],
      source: session,
      cwd,
      ...(command.names && { selection: { names: new Set(command.names) } }),
    },
  );
}
