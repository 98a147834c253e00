import { basename, dirname, resolve } from "node:path";
import type { Command } from "commander";
import { openBrowser } from "../../process/open-browser.ts";
import { serveDashboard } from "../../dashboard/server.ts";
import { environment } from "../../load/environment.ts";
import { defaultRunsFolder, findRun } from "../../store/run-folder.ts";
import { type SetExitCode, wholeNumber } from "../flags.ts";
import { untilInterrupted, workingFolder, writeOut } from "../terminal.ts";

/** The flags of `dashboard` as commander gives them. */
interface DashboardFlags {
  readonly output?: string;
  readonly port?: number;
  readonly open: boolean;
}

/** `mcpvals dashboard`: serves what runs have recorded until it is ended. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument("[run]", "id, start of an id, folder, or latest; default: the list of runs")
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .option("-p, --port <n>", "port (default: 4747, or any free one)", wholeNumber(65_535))
    .option("--no-open", "do not open a browser")
    .action(async (run: string | undefined, flags: DashboardFlags) => setExitCode(await execute(run, flags)));
}

/** Returns the exit code. */
async function execute(run: string | undefined, { output, port, open }: DashboardFlags): Promise<number> {
  const cwd = workingFolder();
  const given = resolve(output ?? defaultRunsFolder);
  const folder = run === undefined ? undefined : await findRun(given, run);
  const runs = folder === undefined ? given : dirname(folder);
  await using dashboard = await serveDashboard({ runs, cwd, port });
  const page = folder === undefined ? "" : pageOfRun(basename(folder));
  writeOut(`Dashboard: ${dashboard.address(page)}\nCtrl-C ends it.`);
  if (open && isAtBrowser()) openBrowser(dashboard.addressForOnce(page));
  await untilInterrupted();
  return 130;
}

/** The page of a run in the dashboard. */
export function pageOfRun(id: string): string {
  return `/runs/${encodeURIComponent(id)}`;
}

/** Whether someone is there who may see a browser. */
export function isAtBrowser(): boolean {
  const { CI = "" } = environment();
  return process.stdout.isTTY && CI === "";
}
