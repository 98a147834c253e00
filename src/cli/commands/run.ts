import { renameSync, writeFileSync } from "node:fs";
import { relative, resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { McpvalsError } from "../../base/error.ts";
import { exact, type JsonObject } from "../../base/json.ts";
import type { Eval, Thresholds, UntilDecided } from "../../model/eval.ts";
import type { RunCommand, RunResult } from "../../model/result.ts";
import type { PlannedBaseline } from "../../report/baseline.ts";
import type { NamedReporter, ReporterFailure } from "../../report/reporter.ts";
import { didNotPass } from "../../report/result.ts";
import type { LoadedConfig } from "../../formats/assemble-eval.ts";
import { load } from "../../formats/load.ts";
import { prepare } from "../../run/prepare.ts";
import { type EarlierRun, recordingOf, run, type RecordingFlags, sourceOf } from "../../run/run.ts";
import { defaultRunsFolder, readLastRun, unprovenTasks } from "../../store/run-folder.ts";
import {
  addAttackFlag,
  addBudgetFlags,
  addFailOnFlags,
  addMaxWarningsFlag,
  addPricesFlag,
  addReporterFlag,
  addSourceFlags,
  addThresholdFlag,
  type AttackFlags,
  attackFilesOf,
  attacksOf,
  type BudgetFlags,
  budgetOf,
  duration,
  extensionOptions,
  type ExtensionRunFlags,
  type FailOnFlags,
  loadOptions,
  type SetExitCode,
  type SourceFlags,
  taskFilters,
  wholeNumber,
} from "../flags.ts";
import { abortOnInterrupt, workingFolder, writeError, writeNotes, hideSecrets } from "../terminal.ts";
import { exitCodeOf, openReporters } from "../open-reporters.ts";
import type { TrialSource } from "../../run/remote/trial-source.ts";
import { nameList } from "../flags.ts";
import { showWaiting } from "../waiting.ts";
import type { WatchedOutcome, WatchedSelection } from "../watch.ts";

export interface RunFlags
  extends AttackFlags, RecordingFlags, SourceFlags, ExtensionRunFlags, FailOnFlags, BudgetFlags {
  readonly trials?: number;
  readonly concurrency?: number;
  readonly reporter?: readonly string[];
  readonly output?: string;
  readonly llm?: boolean;
  readonly timeout?: number;
  readonly maxWarnings?: number;
  readonly threshold?: Thresholds;
  readonly bail?: boolean;
  readonly until?: "decided";
  readonly maxTrials?: number;
  readonly baseline?: string;
  readonly updateBaseline?: boolean;
  readonly quiet?: boolean;
  readonly strict?: boolean;
  readonly shard?: { readonly index: number; readonly count: number };
  readonly coverage?: boolean;
  readonly lastFailed?: boolean;
  readonly watch?: boolean;
  readonly ui?: boolean;
  readonly open: boolean;
  readonly backend?: string;
  readonly labels?: readonly string[];
}

/** `mcpvals run`: evaluates and exits with the code of the verdict. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addSourceFlags(command)
    .option("-n, --trials <n>", "number of attempts of each task", wholeNumber(10_000))
    .option(
      "-j, --concurrency <n>",
      "number of trials that run at once (default: as many as there are processors; one where trials share a server or an agent program)",
      wholeNumber(1024),
    );
  addBudgetFlags(addPricesFlag(addThresholdFlag(addMaxWarningsFlag(addReporterFlag(command)))))
    .option("-q, --quiet", "on the console only what did not pass, and the last lines")
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .option("--llm", "grade workflows with a language model too")
    .option("--timeout <duration>", "time limit of a trial and of everything in it, such as 30s", duration)
    .option("--strict", "tasks with unmet requirements are errors, not skipped")
    .option("--frozen", "use only extensions in mcp-eval.lock, and do not change it")
    .option("--releases-url <url>", "URL of the releases API of extensions, such as a mirror");
  addAttackFlag(command)
    .option("--coverage", "report the tools, parameters, resources and prompts that no test uses")
    .addOption(
      new Option(
        "--shard <i/n>",
        "run only part i of n, on one of several machines; mcpvals merge joins them",
      )
        .argParser(shard)
        .conflicts(["until", "baseline", "lastFailed", "watch", "ui"]),
    )
    .option(
      "--record <dir>",
      "record what servers and models do in each trial, into a folder such as recordings",
    )
    .addOption(
      new Option(
        "--replay <dir>",
        "replay servers and models from a folder of recordings: nothing is started, asked or paid for",
      ).conflicts(["record", "replayServers", "replayModels"]),
    )
    .addOption(
      new Option("--replay-servers <dir>", "replay servers only, such as for another model").conflicts([
        "record",
        "replayModels",
      ]),
    )
    .addOption(
      new Option(
        "--replay-models <dir>",
        "replay models only, such as for another version of a server",
      ).conflicts("record"),
    )
    .addOption(
      new Option(
        "--backend <url>",
        "give the trials to workers (mcpvals worker) by a PostgreSQL database: postgres://USER:PASSWORD@HOST:PORT/DATABASE",
      ).conflicts([
        "shard",
        "record",
        "replay",
        "replayServers",
        "replayModels",
        "watch",
        "ui",
        "coverage",
        "updateBaseline",
      ]),
    )
    .option("--labels <names>", "with --backend: what a worker must have, such as gpu,k8s", nameList)
    .option("--last-failed", "only the tasks that did not pass in the last run of the same file")
    .option("-w, --watch", "run again what a change of a file concerns, until it is ended")
    .option("--ui", "show the run in the dashboard, which stays afterwards until Ctrl-C")
    .option("--no-open", "with --ui: do not open a browser")
    .option("--bail", "stop after the first trial that does not pass")
    .addOption(
      new Option(
        "--until <what>",
        "run more attempts of all tasks until it is decided which variant or agent is better, or whether a threshold of the pass rate is met",
      )
        .choices(["decided"])
        .conflicts(["trials", "bail"]),
    )
    .option(
      "--max-trials <n>",
      "with --until: most attempts of each task (default: 100)",
      wholeNumber(10_000),
    )
    .addOption(
      new Option(
        "--baseline <file>",
        "compare the run at its end with a baseline, such as baseline.json",
      ).conflicts("until"),
    )
    .addOption(
      new Option(
        "--update-baseline",
        "write the run into the file of --baseline in place of comparing it, if no trial is without a verdict",
      ).conflicts(["failOn", "margin", "lastFailed", "watch"]),
    );
  addFailOnFlags(command, "the pass rate of the run, compared with --baseline,").action(
    async (sources: readonly string[], flags: RunFlags) => setExitCode(await execute(sources, flags)),
  );
}

/** Returns the exit code. Throws McpvalsError of kind `usage` before anything starts. */
async function execute(sources: readonly string[], flags: RunFlags): Promise<number> {
  if (flags.ui === true) {
    const { withDashboard } = await import("./dashboard.ts");
    return await withDashboard(flags, (options) => executeRuns(sources, flags, options));
  }
  // What it starts runs elsewhere, and ends in another way.
  if (flags.backend !== undefined)
    return await executeRuns(sources, flags, { signal: new AbortController().signal, listeners: [] });
  using interrupt = abortOnInterrupt(flags);
  return await executeRuns(sources, flags, { signal: interrupt.signal, listeners: [] });
}

/** Runs once, or again and again; returns the exit code. */
async function executeRuns(
  sources: readonly string[],
  flags: RunFlags,
  { signal, listeners }: Pick<OnceOptions, "signal" | "listeners">,
): Promise<number> {
  if (flags.watch !== true) return (await runOnce(sources, flags, { signal, listeners })).code;
  const { terminalKeys, watch } = await import("../watch.ts");
  let { lastFailed: isFirst = false } = flags;
  return await watch({
    signal,
    byTask: true,
    keys: terminalKeys(),
    execute(selection, onLoaded) {
      const lastFailed = isFirst;
      isFirst = false;
      return runOnce(sources, { ...flags, lastFailed }, { signal, listeners, selection, onLoaded });
    },
  });
}

export interface OnceOptions {
  readonly signal: AbortSignal;
  /** Reporters besides those of the flags. */
  readonly listeners: readonly NamedReporter[];
  /** Which of the tasks that the flags mean. */
  readonly selection?: WatchedSelection;
  readonly onLoaded?: (loaded: LoadedConfig) => void;
  /** The run of which trials are used. */
  readonly earlier?: EarlierRun;
  /** Gives the trials, on a worker. */
  readonly source?: TrialSource;
  /** Absolute path of the folder that sources start from; absent: the working folder. */
  readonly cwd?: string;
}

/** Runs once. Throws McpvalsError of kind `usage` before anything starts. */
export async function runOnce(
  sources: readonly string[],
  flags: RunFlags,
  { signal, listeners, selection = {}, onLoaded, earlier, source, cwd = workingFolder() }: OnceOptions,
): Promise<WatchedOutcome> {
  refuseAlone(flags);
  refuseWithAttack(flags);
  const options = loadOptions(sources, flags);
  const baseline = source === undefined ? await plannedBaseline(flags) : undefined;
  const loaded = await load({
    ...options,
    cwd,
    signal,
    isReplayed: flags.replay !== undefined,
    ...(flags.llm === true ? { judge: true } : {}),
  });
  hideSecrets(loaded.secrets);
  if (source === undefined) writeNotes(loaded);
  onLoaded?.({ ...loaded, imports: [...loaded.imports, ...(await attackFilesOf(flags, cwd))] });
  const { pattern, names: wanted } = selection;
  const selecting = pattern === undefined ? flags : { ...flags, task: [pattern] };
  const names = flags.lastFailed === true ? await lastFailed(loaded, flags.output) : wanted;
  const prepared = prepare(loaded, {
    ...taskFilters(selecting),
    names,
    trials: flags.trials,
    until: untilOf(flags),
    concurrency: flags.concurrency,
    timeoutMs: flags.timeout,
    thresholds: flags.threshold,
    budget: budgetOf(flags),
    attacks: await attacksOf(flags, cwd),
  });
  if (source !== undefined) return await runTaken(prepared, flags, { signal, source, cwd });
  writeNotes({ notes: [...leftOutNotes(loaded.eval, flags), ...unprovenNotes(prepared.eval)] });
  const reporters = flags.reporter ?? prepared.eval.reporters;
  if (flags.backend !== undefined)
    return await runByWorkers(flags.backend, prepared, {
      flags,
      reporters,
      command: commandOf(sources, selecting, names),
      ...exact({ baseline }),
    });
  const { bail, strict, coverage, allowOutside, maxWarnings, output, quiet, shard: part } = flags;
  const outcome = await run(prepared, {
    cwd: workingFolder(),
    reporters: [...openReporters(reporters.length === 0 ? ["console"] : reporters, { quiet }), ...listeners],
    showWaiting,
    signal,
    command: commandOf(sources, selecting, names),
    earlier,
    ...extensionOptions(flags),
    ...exact({ bail, strict, coverage, allowOutside, maxWarnings, output, baseline, shard: part }),
    ...exact({ budget: prepared.eval.budget, recording: recordingOf(flags) }),
  });
  const { result } = outcome;
  writeNotes({ notes: outcome.warnings });
  const failures = [...outcome.failures, ...(await updateBaseline(flags, result, names))];
  return { code: exitCodeOf(result, failures), result };
}

/** Runs the trials that a source gives, as far as the files of the run are what it was submitted with. */
async function runTaken(
  prepared: LoadedConfig,
  flags: RunFlags,
  { signal, source, cwd }: Required<Pick<OnceOptions, "signal" | "source" | "cwd">>,
): Promise<WatchedOutcome> {
  const { strict, coverage, allowOutside } = flags;
  const { result } = await run(prepared, {
    cwd,
    source,
    signal,
    output: false,
    ...extensionOptions(flags),
    ...exact({ strict, coverage, allowOutside }),
  });
  return { code: exitCodeOf(result, []), result };
}

/** Gives the run to workers, and follows it. */
async function runByWorkers(
  url: string,
  prepared: LoadedConfig,
  {
    flags,
    reporters,
    command,
    baseline,
  }: {
    readonly flags: RunFlags;
    readonly reporters: readonly string[];
    readonly command: RunCommand;
    readonly baseline?: PlannedBaseline;
  },
): Promise<WatchedOutcome> {
  const { labels = [], maxWarnings, bail, quiet, output, attack } = flags;
  const cwd = workingFolder();
  const { isAttackFile } = await import("../../formats/attacks.ts");
  const names = typeof attack === "object" ? attack : [];
  const files = await attackFilesOf(flags, cwd);
  // On a worker, the folder is elsewhere.
  const attacks = names.map((name) => (isAttackFile(name) ? relative(cwd, resolve(cwd, name)) : name));
  const { submitRun } = await import("../../run/remote/coordinator.ts");
  const id = await submitRun(url, prepared, {
    cwd,
    command: names.length === 0 ? command : { ...command, flags: { ...command.flags, attack: attacks } },
    labels,
    files,
    ...exact({ maxWarnings, baseline, bail: bail ?? prepared.eval.bail, budget: prepared.eval.budget }),
  });
  const { attachCommand } = await import("../remote.ts");
  writeError(`The run ${id} is with the workers. Follow it from anywhere: ${attachCommand(url, id)}`);
  const { followRemotely } = await import("./attach.ts");
  return await followRemotely(
    { url, run: id },
    { reporter: reporters, ...exact({ quiet, output }) },
    "attach",
  );
}

/** Reads `i/n`. Throws InvalidArgumentError. */
function shard(text: string): { readonly index: number; readonly count: number } {
  const [index = 0, count = 0] = (/^(\d{1,4})\/(\d{1,4})$/.exec(text) ?? []).slice(1).map(Number);
  if (index >= 1 && index <= count) return { index, count };
  throw new InvalidArgumentError("expected a part and the number of parts, such as 1/4");
}

/** Throws `usage/invalid-option` for an option without the one that it belongs to. */
function refuseAlone({ until, baseline, ...flags }: RunFlags): void {
  const has = { until: until !== undefined, baseline: baseline !== undefined };
  const needs = [
    ["--max-trials", flags.maxTrials, has.until, "--until decided"],
    ["--labels", flags.labels, flags.backend !== undefined, "--backend"],
    ["--margin", flags.margin, has.until || has.baseline, "--until decided, or --baseline"],
    ["--fail-on", flags.failOn, has.baseline, "--baseline"],
    ["--update-baseline", flags.updateBaseline, has.baseline, "--baseline"],
  ] as const;
  const alone = needs.find(([, given, isThere]) => given !== undefined && !isThere);
  if (alone === undefined) return;
  const [option, , , other] = alone;
  throw new McpvalsError("usage/invalid-option", `${option} is for ${other}`);
}

/** Throws `usage/invalid-option` for an option that `--attack` excludes. */
function refuseWithAttack({ attack, ...flags }: RunFlags): void {
  if (attack === undefined) return;
  const isRecorded = "A recording has no attacks: leave out one of the two.";
  const excluded = [
    [
      "--baseline",
      flags.baseline,
      "Compare with an earlier run with --attack, which pairs each attack with itself: npx mcpvals compare EARLIER LATER --fail-on worse. How many attacks have to be resisted, a threshold says: --threshold attack-resistance=0.95.",
    ],
    ["--until", flags.until, "Give all trials the same number of attempts, such as --trials 5."],
    ["--record", flags.record, isRecorded],
    ["--replay", flags.replay, isRecorded],
    ["--replay-servers", flags.replayServers, isRecorded],
    ["--replay-models", flags.replayModels, isRecorded],
  ] as const;
  const found = excluded.find(([, given]) => given !== undefined);
  if (found === undefined) return;
  const [option, , hint] = found;
  throw new McpvalsError("usage/invalid-option", `--attack cannot be used with ${option}`, { hint });
}

/** What the run is compared with. Throws McpvalsError of kind `usage` for a baseline that cannot be read. */
async function plannedBaseline({
  baseline: name,
  updateBaseline: isUpdate,
  margin,
  failOn,
}: RunFlags): Promise<PlannedBaseline | undefined> {
  if (name === undefined || isUpdate === true) return undefined;
  const { readBaseline } = await import("../sides.ts");
  return { name, document: await readBaseline(name), ...exact({ margin, failOn }) };
}

/** Writes the run as the baseline where that was asked for; returns why it was not. `names`: only these tasks ran. */
async function updateBaseline(
  { baseline: name, updateBaseline: isUpdate }: RunFlags,
  result: RunResult,
  names: ReadonlySet<string> | undefined,
): Promise<readonly ReporterFailure[]> {
  if (name === undefined || isUpdate !== true) return [];
  const { baselineOf, baselineText, whyNoBaseline } = await import("../../report/baseline.ts");
  const reason = names === undefined ? whyNoBaseline(result) : "only some of the tasks were run";
  try {
    if (reason !== undefined) throw new Error(`the baseline was not written: ${reason}`);
    const path = resolve(name);
    const written = baselineOf(result);
    writeFileSync(`${path}.part`, baselineText(written));
    renameSync(`${path}.part`, path);
    writeNotes({
      notes: [`${name} was written: a line for each task, agent and variant, ${written.tasks.length} in all`],
    });
    return [];
  } catch (error) {
    return [{ reporter: name, error }];
  }
}

const defaultMaxTrials = 100;

function untilOf({ until, maxTrials = defaultMaxTrials, margin }: RunFlags): UntilDecided | undefined {
  return until && { maxTrials, ...exact({ margin }) };
}

/** Options that do not change what runs, or stand elsewhere in its command. */
const notKept = new Set(["backend", "env", "labels", "lastFailed", "open", "output", "quiet", "ui", "watch"]);

/** How a run is started, for its folder. */
function commandOf(
  sources: readonly string[],
  flags: RunFlags,
  names: ReadonlySet<string> | undefined,
): RunCommand {
  const kept = Object.entries(flags).filter(([name]) => !notKept.has(name));
  return {
    cwd: workingFolder(),
    sources,
    flags: JSON.parse(JSON.stringify(Object.fromEntries(kept))) as JsonObject,
    env: Object.keys(flags.env ?? {}),
    ...(names === undefined ? {} : { names: [...names] }),
  };
}

/**
 * The tasks that did not pass in the last run of the same file, without those that were skipped on purpose. Throws `usage/no-match` when
 * there are none.
 */
async function lastFailed(loaded: LoadedConfig, output = defaultRunsFolder): Promise<ReadonlySet<string>> {
  const last = await readLastRun(resolve(output), sourceOf(loaded));
  const { replayRun } = await import("../../report/replay.ts");
  const trials = last === undefined ? [] : replayRun(last).result.trials;
  const failed = trials.filter(didNotPass);
  if (failed.length > 0) return new Set(failed.map(({ task }) => task));
  throw new McpvalsError(
    "usage/no-match",
    last === undefined
      ? "--last-failed: there is no earlier run of this file"
      : `--last-failed: every task passed in the last run, ${last.id}, or was skipped on purpose`,
    { hint: "Run without --last-failed." },
  );
}

/** Says that attacks leave out tests of tools. */
function leftOutNotes({ tasks }: Eval, { attack }: RunFlags): readonly string[] {
  const isMixed = attack !== undefined && tasks.some(({ turns }) => turns.length === 0);
  return isMixed ? ["--attack leaves out the tests of tools, in which no agent acts"] : [];
}

const maxNamed = 5;

/** Names the tasks and workflows that no `validate --run` has seen to fail with an agent that does nothing, or repeats the prompt. */
function unprovenNotes({ tasks, agents }: Eval): readonly string[] {
  if (!agents.some(({ type }) => type === "model" || type === "acp" || type === "command")) return [];
  const unproven = unprovenTasks(
    workingFolder(),
    tasks.filter(({ turns }) => turns.length > 0),
  );
  if (unproven.length === 0) return [];
  const names = unproven.slice(0, maxNamed).map(({ name }) => name);
  const rest = unproven.length - names.length;
  return [
    `never seen to fail when the agent does nothing: ${names.join(", ")}${rest > 0 ? ` and ${rest} more` : ""}; ` +
      "`npx mcpvals validate --run` tries that",
  ];
}
