import { basename, dirname, resolve } from "node:path";
import type { Command } from "commander";
import type { NamedReporter, RunStart } from "../../report/reporter.ts";
import { exitCode } from "../../report/result.ts";
import { openBrowser } from "../../process/spawn.ts";
import { serveDashboard } from "../../dashboard/server.ts";
import { environment } from "../../formats/environment.ts";
import { defaultRunsFolder, findRun } from "../../store/run-folder.ts";
import { exact } from "../../base/json.ts";
import { type SetExitCode, wholeNumber } from "../flags.ts";
import { localRun, remoteName, writeNote } from "../remote.ts";
import { abortOnInterrupt, untilInterrupted, workingFolder, writeError, writeOut } from "../terminal.ts";

const interruptedCode = exitCode("interrupted");

interface DashboardFlags {
  readonly output?: string;
  readonly port?: number;
  readonly open: boolean;
}

/** `mcpvals dashboard`: serves what runs have recorded until it is ended. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument(
      "[run]",
      "id, start of an id, folder, latest, or postgres://…#RUN; default: the list of runs; postgres://… without a run: of those in that database too",
    )
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .option(
      "-p, --port <n>",
      "port; 0: any free one (default: 4747, or any free one)",
      wholeNumber(65_535, 0),
    )
    .option("--no-open", "do not open a browser")
    .action(async (run: string | undefined, flags: DashboardFlags) => setExitCode(await execute(run, flags)));
}

/** Returns the exit code. */
async function execute(run: string | undefined, { output, port, open }: DashboardFlags): Promise<number> {
  const cwd = workingFolder();
  const given = resolve(output ?? defaultRunsFolder);
  const remote = run === undefined || run.includes("#") ? undefined : remoteName(run);
  using _ = remote && (await copyRuns(remote.url, { cwd, ...exact({ output }) }));
  const named = run === undefined || remote !== undefined ? undefined : await localRun(run, output);
  const folder = named === undefined ? undefined : await findRun(given, named);
  const runs = folder === undefined ? given : dirname(folder);
  await using dashboard = await serveDashboard({ runs, cwd, port });
  const page = folder === undefined ? "" : pageOfRun(basename(folder));
  const interrupted = untilInterrupted();
  writeOut(`Dashboard: ${dashboard.address(page)}\nCtrl-C ends it.`);
  if (open && isAtBrowser()) openBrowser(dashboard.addressForOnce(page));
  await interrupted;
  return interruptedCode;
}

/** Takes the runs of a database into the folder of runs, again and again until it is disposed of. Throws when that fails at first. */
async function copyRuns(
  url: string,
  options: { readonly cwd: string; readonly output?: string },
): Promise<Disposable> {
  const { copyRuns: copy } = await import("../../run/remote/coordinator.ts");
  const ending = new AbortController();
  await copy(url, { ...options, signal: ending.signal, onNote: writeNote });
  return { [Symbol.dispose]: () => ending.abort() };
}

/** What a run needs to be shown and interrupted. */
interface ShownRunOptions {
  readonly signal: AbortSignal;
  readonly listeners: readonly NamedReporter[];
}

/**
 * Has the dashboard show the first run that `execute` starts. It stays after the run until Ctrl-C, as it does after a run that
 * Ctrl-C at a terminal has ended. With `CI` set, and after another interruption, it ends with the run. Returns the exit code of
 * the run. Throws what `execute` throws.
 */
export async function withDashboard(
  flags: Pick<DashboardFlags, "output" | "open">,
  execute: (options: ShownRunOptions) => Promise<number>,
): Promise<number> {
  const runs = resolve(flags.output ?? defaultRunsFolder);
  await using dashboard = await serveDashboard({ runs, cwd: workingFolder() });
  let isOpen = false;
  const onRunStart = ({ id }: RunStart): void => {
    if (isOpen) return;
    isOpen = true;
    const page = pageOfRun(id);
    writeError(`Dashboard: ${dashboard.address(page)}`);
    if (flags.open && isAtBrowser()) openBrowser(dashboard.addressForOnce(page));
  };
  const shown = { name: "dashboard", reporter: { onRunStart } };
  let code: number;
  let received: NodeJS.Signals | undefined;
  {
    using interrupt = abortOnInterrupt(flags);
    code = await execute({ signal: interrupt.signal, listeners: [shown] });
    received = interrupt.received();
  }
  const isLookedAt = received === undefined ? !isInCi() : received === "SIGINT" && isAtBrowser();
  if (!isLookedAt) return code;
  const interrupted = untilInterrupted();
  writeError(`The dashboard stays until Ctrl-C: ${dashboard.address()}`);
  await interrupted;
  return code;
}

function pageOfRun(id: string): string {
  return `/runs/${encodeURIComponent(id)}`;
}

/** Whether someone is there who may see a browser. */
function isAtBrowser(): boolean {
  return process.stdout.isTTY && !isInCi();
}

function isInCi(): boolean {
  const { CI = "" } = environment();
  return CI !== "";
}
