import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { McpvalsError, messageOf } from "../../base/error.ts";
import type { Trial } from "../../model/plan.ts";
import { createMultiplexer, type RunStart } from "../../report/reporter.ts";
import { renderTrace } from "../../report/render-trace.ts";
import { readRunEnd, replayRun } from "../../report/replay.ts";
import { unfinishedState } from "../../report/result.ts";
import type { TrialResult } from "../../model/result.ts";
import { visibleText } from "../../base/visible-text.ts";
import { readTrace } from "../../trace/trajectory.ts";
import { toolEvents } from "../../trace/agent-acts.ts";
import { readJournal } from "../../store/journal.ts";
import { defaultRunsFolder, type OpenedRun, openRun, type StoredRun } from "../../store/run-folder.ts";
import { readHead, readSettledResult, runState } from "../../store/run-files.ts";
import { misfitIn } from "../../store/misfits.ts";
import { addReporterFlag, type SetExitCode } from "../flags.ts";
import { localRun, remoteName, writeNote } from "../remote.ts";
import { exitCodeOf, openReporters } from "../open-reporters.ts";
import { copyFile, writeError, writeJson, writeOut } from "../terminal.ts";

interface ShowFlags {
  readonly output?: string;
  readonly trial?: string;
  readonly reporter?: readonly string[];
  readonly json?: boolean;
  readonly tools?: boolean;
  readonly coverage?: boolean;
}

/** `mcpvals show`, also `report`: reports a finished or interrupted run again, from its journal. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument("[run]", "id, start of an id, folder, or latest", "latest")
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .option("-t, --trial <id>", "show every event of this trial, such as t1");
  addReporterFlag(command)
    .addOption(
      new Option("--tools", "print every tool use of agents as JSON Lines").conflicts(["reporter", "json"]),
    )
    .option("--coverage", "report the tools, parameters, resources and prompts that no test used")
    .option("--json", "print the result document as JSON; with --trial, the events as JSON Lines")
    .action(async (name: string, flags: ShowFlags) => setExitCode(await execute(name, flags)));
}

/** Returns the exit code: that of the run if it is reported again; 0 for one of its trials or tool uses. */
async function execute(name: string, flags: ShowFlags): Promise<number> {
  const stored = await openRun(
    resolve(flags.output ?? defaultRunsFolder),
    await localRun(name, flags.output),
  );
  if (remoteName(name) === undefined) noteRemote(stored);
  try {
    return await show(stored, flags);
  } catch (cause) {
    if (cause instanceof McpvalsError) throw withResume(cause, stored);
    const misfit = await misfitIn(stored.folder);
    if (misfit !== undefined) throw misfit;
    const reason = messageOf(cause);
    throw new McpvalsError("store/corrupt", `the run in ${stored.folder} cannot be shown: ${reason}`, {
      hint: "Its files were not written by this version of mcpvals. If they were, please report it.",
      cause,
    });
  }
}

/** Says of a run that was cut off and cannot be read what can still be done. */
function withResume(error: McpvalsError, { folder, command, durationMs }: OpenedRun): McpvalsError {
  const { code, message, details } = error;
  if (code !== "store/corrupt" || command === undefined || durationMs !== undefined) return error;
  if (runState(folder, readHead(folder)) === "running") return error;
  const hint = `${details.hint ?? ""} mcpvals resume goes on with the run, and tries again what the journal lacks.`;
  return new McpvalsError(code, message, { ...details, hint: hint.trim() });
}

async function show(opened: OpenedRun, flags: ShowFlags): Promise<number> {
  const { tools, trial, json = false, reporter = [json ? "json" : "console"], coverage = false } = flags;
  if (tools !== true && trial === undefined) return showRun(opened, reporter, { coverage });
  const stored = { ...opened, ...(await readJournal(opened.folder)) };
  noteTorn(stored);
  if (tools === true) showTools(stored, trial);
  else if (trial !== undefined) showTrial(stored, trial, json);
  return 0;
}

/** Writes the uses of tools of all trials, or of one. */
function showTools(stored: StoredRun, id: string | undefined): void {
  const { plan } = stored;
  const trials = id === undefined ? plan.trials : [findTrial(stored, id)];
  for (const trial of trials) {
    const events = stored.events.filter((event) => event.trial === trial.id);
    const used = toolEvents(readTrace(events));
    const { task: name, agent, variant } = trial;
    for (const event of used) writeJson({ trial: trial.id, task: name, agent, variant, ...event });
  }
}

function findTrial({ plan }: StoredRun, id: string): Trial {
  const trial = plan.trials.find((candidate) => candidate.id === id || candidate.task === id);
  if (trial !== undefined) return trial;
  const ids = plan.trials.slice(0, 10).map((candidate) => `${candidate.id} (${candidate.task})`);
  throw new McpvalsError("store/not-found", `the run has no trial "${id}"`, {
    hint: `There are: ${ids.join(", ")}`,
  });
}

function showTrial(stored: StoredRun, id: string, json: boolean): void {
  const trial = findTrial(stored, id);
  const events = stored.events.filter((event) => event.trial === trial.id);
  if (json) return events.forEach((event) => writeJson(event));
  const result = replayRun(stored).result.trials.find((candidate) => candidate.id === trial.id);
  const head = result === undefined ? [] : [...renderVerdict(result), ""];
  const lines = renderTrace(events);
  writeOut([...head, ...(lines.length === 0 ? ["(the trial left no events)"] : lines)].join("\n"));
}

/** The outcome of the trial, before the events that led to it. */
function renderVerdict(trial: TrialResult): string[] {
  const { id, task, agent, variant, attempt, verdict, grades, error } = trial;
  const state = unfinishedState(trial)?.replace("-", " ") ?? verdict;
  const servers = variant === undefined ? "" : `, ${variant}`;
  const who = `${agent === null ? "" : `, agent ${agent}`}${servers}`;
  const reasons = grades.map((grade) => `  ${grade.verdict} ${grade.grader}: ${grade.reason}`);
  const broken = error === undefined ? [] : [`  ${error.code}: ${error.message}`];
  return [`${id} ${task}${who}, attempt ${attempt}: ${state}`, ...reasons, ...broken].map(visibleText);
}

/** What this machine has of a run of a database may be old. */
function noteRemote({ id, command, durationMs, interrupted }: OpenedRun): void {
  const { backend } = command?.flags ?? {};
  if (typeof backend === "string" && (durationMs === undefined || interrupted === true))
    writeNote(
      `this is what was taken from the database ${backend}; what has ended since: npx mcpvals show 'postgres://USER:PASSWORD@${backend}#${id}'`,
    );
}

function noteTorn({ torn }: Pick<StoredRun, "torn">): void {
  if (torn) writeError("The journal's last line is incomplete and was ignored.");
}

/** Reports a recorded run again. Returns its exit code. */
export async function showRun(
  opened: OpenedRun,
  specs: readonly string[],
  { coverage }: Required<Pick<RunStart, "coverage">>,
): Promise<number> {
  if (specs.join() === "json") {
    // It is written as the report is, which need not be in memory. All of it is read once before, since a damaged one is refused.
    const settled = await readSettledResult(opened.folder, () => undefined);
    if (settled !== undefined) {
      await copyFile(join(opened.folder, "result.json"));
      return exitCodeOf(settled, []);
    }
  }
  const reporters = createMultiplexer(openReporters(specs));
  const { command, ...head } = opened;
  // Bringing it here has said whether it goes on, and resuming it is another command.
  const isRemote = command?.flags["backend"] !== undefined;
  const goesOn = runState(opened.folder, readHead(opened.folder)) === "running";
  // It begins at once, since reading a large run takes a while.
  await reporters.onRunStart({ ...head, ...(goesOn || isRemote ? {} : { command }), coverage });
  const { result, evidence, torn } = await readRunEnd(opened);
  if (goesOn && !isRemote)
    writeError("note: the run still goes on: what has not ended yet is shown as interrupted");
  else noteTorn({ torn });
  for (const trial of result.trials) await reporters.onTrialEnd(trial);
  await reporters.onRunEnd({ result, evidence });
  await reporters.close();
  return exitCodeOf(result, reporters.errors);
}
