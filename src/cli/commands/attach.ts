import type { Command } from "commander";
import { exact } from "../../base/json.ts";
import { addReporterFlag, type SetExitCode } from "../flags.ts";
import type { RunResult } from "../../model/result.ts";
import { exitCodeOf, openReporters } from "../open-reporters.ts";
import { databaseUrl, type RemoteName, remoteName, writeNote } from "../remote.ts";
import { abortInStages, workingFolder } from "../terminal.ts";

interface AttachFlags {
  readonly output?: string;
  readonly reporter?: readonly string[];
  readonly quiet?: boolean;
}

/** `mcpvals attach`: follows a run that workers execute, as the command that started it does. */
export function define(command: Command, setExitCode: SetExitCode): void {
  const described = command
    .argument(
      "[run]",
      "postgres://…#RUN, or the id of a run in the database of MCPVALS_DATABASE_URL",
      "latest",
    )
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .option("-q, --quiet", "on the console only what did not pass, and the last lines");
  addReporterFlag(described).action(async (name: string, flags: AttachFlags) =>
    setExitCode((await followRemotely(namedRun(name), flags, "attach")).code),
  );
}

/** The run of a database that a name means: `postgres://…#RUN`, or one of the database of the environment. */
function namedRun(name: string): RemoteName {
  return remoteName(name) ?? { url: databaseUrl(undefined), run: name };
}

interface FollowedOutcome {
  readonly code: number;
  readonly result: RunResult;
}

/** What the first and the second interruption of who follows a run do. */
const stages = [
  // Who may only read ends nothing but the following, which the database says.
  "Interrupted. Interrupt again to wait no longer.",
  "Interrupted again.",
] as const;

/** Follows a run of a database; with `resume` what was stopped goes on. Throws McpvalsError. */
export async function followRemotely(
  { url, run }: RemoteName,
  { output, reporter = ["console"], quiet }: AttachFlags,
  how: "attach" | "resume",
): Promise<FollowedOutcome> {
  const { attachRun, resumeRemoteRun } = await import("../../run/remote/coordinator.ts");
  const reporters = openReporters(reporter, { quiet });
  using interrupt = abortInStages(stages);
  const { result, failures } = await (how === "attach" ? attachRun : resumeRemoteRun)(url, run, {
    cwd: workingFolder(),
    reporters,
    draining: interrupt.first,
    cancelling: interrupt.second,
    onNote: writeNote,
    ...exact({ output }),
  });
  return { code: exitCodeOf(result, failures), result };
}
