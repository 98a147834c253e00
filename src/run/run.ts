import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { loadAgent } from "../agents/create-agent.ts";
import type { SharedLimits } from "../process/adaptive-limit.ts";
import type { PlanRecord } from "../check/plan-check.ts";
import type { ValidateSchema } from "../expect/tool-result.ts";
import { McpvalsError } from "../base/error.ts";
import { asObject, asText, exact } from "../base/json.ts";
import { calibrationFile } from "../graders/judge/calibration.ts";
import { coveredKind } from "../graders/measurements/metrics.ts";
import type { TraceEvent } from "../model/event.ts";
import type { ModelSpec } from "../model/agent.ts";
import type { Budget, Eval } from "../model/eval.ts";
import { actingAgents, createPlan, type Plan, shardOf } from "../model/plan.ts";
import { simulatedUserOf } from "../model/task.ts";
import { fingerprintOfJson, fingerprintsOf } from "../report/fingerprint.ts";
import type { PlannedBaseline } from "../report/baseline.ts";
import { KeptEvidence } from "../report/evidence.ts";
import { RunTally } from "../report/result.ts";
import { agentSettings, extensionSummaries, runEnvironment } from "../report/environment.ts";
import { createMultiplexer, type NamedReporter, type ReporterFailure } from "../report/reporter.ts";
import type { RunCommand, RunEnvironment, RunHead, RunResult, TrialResult } from "../model/result.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import { createRedactor, type Redact } from "../trace/redact.ts";
import { version } from "../base/version.ts";
import type { PreparedExtensions } from "../extensions/host/extension-process.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import type { LoadedConfig } from "../formats/assemble-eval.ts";
import {
  createRunFolder,
  defaultRunsFolder,
  type OpenedRun,
  refusePlanted,
  type RunFolder,
  runId,
} from "../store/run-folder.ts";
import {
  asksInSteps,
  checkModels,
  judgesWithoutKey,
  type ExtensionsInput,
  extensionsOf,
  type ExtensionsOptions,
  type MissingRequirements,
  missingRequirements,
  prepareGraders,
  requireWorkspaces,
} from "./prepare.ts";
import type { StartedHooks } from "./hooks.ts";
import { createProvisioning } from "./provisioning.ts";
import type { RecordReplayOptions } from "../model/recording.ts";
import type { ServeRequest } from "../servers/server-pool.ts";
import { createGrading } from "./grade-trial.ts";
import { runTrials } from "./run-trials.ts";
import type { TrialSource } from "./remote/trial-source.ts";
import type { StateMemory } from "./state-comparison.ts";
import type { TrialServices } from "./trial-state.ts";
import { finishRun } from "./finish-run.ts";

/** The parts of a loaded config that a run needs. */
export type RunInput = ExtensionsInput & Pick<LoadedConfig, "overrides" | "judgeError" | "file" | "dir">;

/** How to run an eval, besides its own settings. */
export interface RunOptions extends ExtensionsOptions {
  /** Folder that gets the run's folder, relative to `cwd`; false writes nothing to disk. Default: `.mcpvals/runs`. */
  readonly output?: string | false;
  readonly reporters?: readonly NamedReporter[];
  /** Shows a progress message before the first trial, until it is disposed of. */
  readonly showWaiting?: (text: string) => Disposable;
  /** Whether the outcome has the evidence of trials that passed too. */
  readonly keepPassed?: boolean;
  /** Stop after the first trial that does not pass. */
  readonly bail?: boolean;
  /** What it is compared with at its end. */
  readonly baseline?: PlannedBaseline;
  /** More warnings fail the run. */
  readonly maxWarnings?: number;
  /** When it is used up, no further trial begins. Absent: all trials run, whatever the eval says. */
  readonly budget?: Budget;
  /** Whether unmet requirements of a task are an error instead of skipping it. */
  readonly strict?: boolean;
  /** Whether paths of tasks may leave their folders. */
  readonly allowOutside?: boolean;
  /** Ask servers for their resources and prompts too, and report what no trial used. */
  readonly coverage?: boolean;
  /** Present: each trial compares the state after cleanup with the state before setup. */
  readonly compareState?: StateMemory;
  /** Probes that planning has recorded, by task: their trials get this record and start nothing. */
  readonly records?: ReadonlyMap<string, PlanRecord>;
  /** Removes secrets; absent: those of the eval. */
  readonly redact?: Redact;
  /** Validates what servers declare; absent: a validator of the run's own does. */
  readonly validateSchema?: ValidateSchema;
  /** Start of the work, by `performance.now()`; absent: now. */
  readonly started?: number;
  /** Which of so many parts of the run is run. Absent: all of it. */
  readonly shard?: { readonly index: number; readonly count: number };
  /** Gives the trials, on a worker: those of its plan are only what it can run. */
  readonly source?: TrialSource;
  /** Recordings that it writes, or takes the place of servers and models from. */
  readonly recording?: RecordReplayOptions;
  /** How it was started, so that it can be resumed. */
  readonly command?: RunCommand;
  /** The run of which trials are used: it goes on in its folder, or a new run tries its errors again. */
  readonly earlier?: EarlierRun | undefined;
  /** Aborting ends the running trials, stops their servers and gives a result with the verdict `interrupted`. */
  readonly signal?: AbortSignal;
}

/** A run of which trials are used. */
export interface EarlierRun {
  readonly run: OpenedRun;
  /**
   * `resume`: it goes on with what has not ended; `errors`: a new run has its trials with a verdict and runs the others; `none`: a new run uses no trials of it, but names it.
   */
  readonly use: "resume" | "errors" | "none";
}

export interface RunOutcome {
  readonly result: RunResult;
  readonly plan: Plan;
  /** By trial id, the evidence (see `collectEvidence`) of the first trials that did not pass, with `keepPassed` also of those that did. */
  readonly evidence: ReadonlyMap<string, readonly TraceEvent[]>;
  /** Absent when nothing was written. */
  readonly folder?: string;
  /** Errors of reporters and of the run folder; the run went on without them. */
  readonly failures: readonly ReporterFailure[];
  /** Failures of hooks that may fail, and what was wrong with the journal of a resumed run. */
  readonly warnings: readonly string[];
}

/**
 * Runs a loaded eval. Before the first trial it throws McpvalsError of kind `usage`, `extension/unreachable` for an
 * extension that cannot be fetched, `run/hook-failed` and `run/interrupted`, and of a run that cannot be resumed `store/in-use`; afterwards every error is in the result.
 */
export async function run(given: RunInput, options: RunOptions): Promise<RunOutcome> {
  const { cwd, recording } = options;
  const loaded = recording?.replay?.sides.includes("models") === true ? withoutKeys(given) : given;
  if (loaded.judgeError !== undefined && asksInSteps(loaded.eval)) throw loaded.judgeError;
  const asksJudge = await checkModels(loaded);
  const calibrations = asksJudge
    ? await (await import("./calibrate-judge.ts")).readCalibrations(join(loaded.dir, calibrationFile))
    : undefined;
  const { started = performance.now() } = options;
  const { eval: spec, env, overrides } = loaded;
  const { compareState } = options;
  const whole = createPlan(spec, availableParallelism());
  const plan: Plan = {
    ...(options.shard === undefined ? whole : shardOf(whole, { ...options.shard, of: trialsHash(whole) })),
    ...exact({ maxWarnings: options.maxWarnings, baseline: options.baseline }),
  };
  const { redact = createRedactor(loaded.secrets) } = options;
  const reporters = createMultiplexer(options.reporters ?? []);
  const evidence = new KeptEvidence();
  const evidenceOfPassed = new KeptEvidence();
  const tally = new RunTally(plan);
  const comparing = plan.baseline && (await import("../report/baseline.ts"));
  const decisions = plan.until && new (await import("../report/decisions.ts")).Decisions(plan);
  await using validator = new SchemaValidator();
  const { validateSchema = validator.validate.bind(validator) } = options;
  using interruption = followSignal(options.signal);
  const { signal } = interruption;
  const { earlier } = options;
  const resume = earlier?.use === "resume" ? earlier.run : undefined;
  const startedAt = resume?.startedAt ?? new Date(performance.timeOrigin + started).toISOString();
  comparing?.refuseBaseline(plan, earlier && comparing.originOf(earlier.run));
  const resuming = earlier && (await import("./resume.ts"));
  if (earlier !== undefined && earlier.use !== "none")
    resuming?.refuseChanged(earlier.run, {
      plan: withoutSecrets(plan, redact),
      environment: redact(ownEnvironment(spec, redact)),
    });
  options.source?.accept({
    plan: withoutSecrets(plan, redact),
    environment: redact(ownEnvironment(spec, redact)),
  });
  await using hooks = await hooksOf(loaded, redact);
  const missing = await missingRequirements(loaded, plan.tasks);
  const recordReplay =
    recording && new (await import("./record-replay.ts")).RecordReplay(recording, { cwd, redact });
  await using servers = createProvisioning(spec, plan, {
    env,
    validateSchema,
    onToken: redact.add,
    source: options.source,
    ...(recordReplay?.replays("servers") === true && {
      replay: (request: ServeRequest) => recordReplay.host(request),
    }),
  });
  const runnable = withoutSkipped(loaded, plan, missing);
  let extensions: PreparedExtensions;
  try {
    requireWorkspaces(runnable);
    if (runnable.eval.tasks.some(({ graders = [] }) => graders.length > 0)) {
      using _ = options.showWaiting?.("trying the graders");
      await prepareGraders(runnable, { validateSchema, signal });
    }
    await hooks?.start(signal);
    extensions = await extensionsOf(runnable, options, { validateSchema, signal });
    await servers.startRequired(signal);
  } catch (error) {
    await reporters.close();
    throw error;
  }
  if (compareState !== undefined)
    await (await import("./state-comparison.ts")).rememberFolders(compareState, plan.tasks);
  const environment = redact({
    ...ownEnvironment(spec, redact),
    ...exact({
      extensions: extensionsIn(runnable, extensions),
      calibrations,
      replayed: recording?.replay?.sides,
    }),
  });
  const retryOf =
    earlier === undefined || resume !== undefined
      ? resume && exact({ retryOf: resume.retryOf })
      : { retryOf: await retryOfRun(earlier.run) };
  const head = { id: resume?.id ?? runId(startedAt), startedAt, environment, ...retryOf };
  const source = targetsOf(loaded, environment) ?? redact(sourceOf(loaded));
  const { source: trialSource } = options;
  const isAttacked = plan.variants?.some(({ attack }) => attack !== undefined) === true;
  const attackComparison = isAttacked
    ? new (await import("./attack-comparison.ts")).AttackComparison(
        plan,
        trialSource && ((...wanted) => trialSource.eventsOf(...wanted)),
      )
    : undefined;
  const keep = (trajectory: Trajectory, result: TrialResult): void => {
    tally.add(trajectory, result);
    attackComparison?.add(trajectory);
    if (result.verdict !== "pass" && result.verdict !== "skip") evidence.keep(result, trajectory);
    else if (options.keepPassed === true) evidenceOfPassed.keep(result, trajectory);
  };
  const command = options.command && { command: redact(options.command) };
  const onEnded = (result: TrialResult, trajectory: Trajectory): void => keep(trajectory, result);
  const reopened = resume && (await resuming?.resumeRun(resume, onEnded));
  await using folder =
    reopened?.folder ?? (await folderOf({ ...head, source, ...command }, plan, options, redact));
  const copied =
    earlier?.use === "errors" && folder && (await resuming?.copyJudged(earlier.run, folder, onEnded));
  const resumed = reopened ?? (copied || undefined);
  using exit = flushOnExit(folder);
  const place = folder && { folder: folder.path };
  const { limits, judge, prices } = spec;
  const { budget } = options;
  const spending =
    budget &&
    new (await import("./budget.ts")).Spending(budget, {
      currency: prices?.currency,
      elapsedMs: () => performance.now() - started + (resumed?.elapsedMs ?? 0),
    });
  const pricing = prices && (await import("../model/prices.ts"));
  const judges = judge && (await import("../graders/judge/judge.ts"));
  const accounts: SharedLimits = {
    most: plan.concurrency,
    limits: new Map(),
    pauseOf: trialSource && ((key) => trialSource.pauseOf(key)),
  };
  const services: TrialServices = {
    limits,
    variables: { shell: env, overrides },
    allowOutside: options.allowOutside ?? false,
    strict: options.strict ?? false,
    listAll:
      options.coverage === true || Object.keys(plan.thresholds ?? {}).some((name) => coveredKind(name)),
    compareState,
    records: options.records,
    missing: ({ trial: { task, variant } }) => missing({ task, variant }),
    judgesWithoutKey: asksJudge ? await judgesWithoutKey(loaded) : new Map(),
    startServer: servers.startServer,
    specOf: servers.specOf,
    extensions,
    validateSchema,
    createJudge:
      judge &&
      judges &&
      ((emit, hold) => judges.createStepJudge(judge, { env, emit, hold, accounts, modelMs: limits.modelMs })),
    createAgent: agentFactory(loaded, accounts, redact.add),
    askUserModel: await userModelOf(loaded, accounts),
  };
  try {
    const onRecord = resumed && { recorded: resumed.recorded.ended.size };
    await reporters.onRunStart({
      plan,
      ...head,
      ...place,
      ...command,
      ...onRecord,
      coverage: options.coverage ?? false,
    });
    const trials = await runTrials(plan, {
      services,
      redact,
      isDecided: () => decisions?.areMade === true,
      usedUp: spending && (() => spending.usedUp),
      bail: options.bail ?? spec.bail ?? false,
      signal,
      recorded: resumed?.recorded,
      recordReplay,
      attackComparison,
      emittingCosts: pricing && prices && ((emit) => pricing.emittingCosts(emit, prices)),
      grade: createGrading(loaded, { validateSchema, signal, accounts }),
      onTrialStart: async (trial) => reporters.onTrialStart(trial),
      source: options.source,
      onEvent(event, json) {
        folder?.append(event, json);
        options.source?.append(event, json);
        reporters.onEvent(event);
      },
      async settle(result, trajectory) {
        await servers.trialEnded(result);
        if (trajectory !== undefined) keep(trajectory, result);
      },
      async onTrialEnd(result) {
        // Writing goes on in the background; an error is reported at the end.
        folder?.commit().catch(() => undefined);
        attackComparison?.end(result);
        decisions?.add(result);
        // What a retry copies was used by another run.
        if (reopened !== undefined || resumed?.recorded.ended.has(result.id) !== true) spending?.add(result);
        await reporters.onTrialEnd(result);
      },
    });
    await servers[Symbol.asyncDispose]();
    const failures: ReporterFailure[] = [...((await hooks?.finish()) ?? [])];
    const durationMs = Math.round(performance.now() - started + (resumed?.elapsedMs ?? 0));
    const ranPlan = trials.length === plan.trials.length ? plan : withTrials(plan, trials);
    const fingerprints = fingerprintsOf(redact(plan.tasks));
    const interrupted = signal.aborted;
    const comparison = comparing?.compareWithBaseline(plan, { ...head, trials, interrupted, fingerprints });
    const isUsedUp = trials.some(({ error }) => error?.code === "run/budget");
    const spent = budget && {
      budget: {
        ...budget,
        ...(isUsedUp &&
          exact({ usedUp: spending?.usedUp, isUnknown: spending?.isUnknown === true || undefined })),
      },
    };
    const result = tally.result(
      { ...head, ...spent, durationMs, fingerprints, comparison },
      trials,
      ranPlan,
      { interrupted },
    );
    let isUnkept = false;
    try {
      if (ranPlan !== plan) await folder?.writePlan(withoutSecrets(ranPlan, redact));
      if (folder !== undefined) await finishRun(folder, result);
    } catch (error) {
      // A result that cannot be stored, for example on a full disk, is still reported.
      failures.push({ reporter: `run folder ${folder?.path ?? ""}`, error });
      isUnkept = true;
    }
    await reporters.onRunEnd({ result, evidence: evidence.byTrial, ...(isUnkept && { isUnkept }) });
    return {
      result,
      plan: ranPlan,
      evidence: new Map([...evidence.byTrial, ...evidenceOfPassed.byTrial]),
      failures: [...failures, ...reporters.errors],
      warnings: [
        ...(resumed?.notes ?? []),
        ...(hooks?.warnings ?? []),
        ...(recordReplay?.notes(ranPlan) ?? []),
      ],
      ...place,
    };
  } finally {
    exit.flush();
    await reporters.close();
  }
}

/** What is known of a run before anything of it starts, without secrets. */
export interface DescribedRun {
  readonly plan: Plan;
  readonly head: RunHead;
  readonly redact: Redact;
}

/** Says what a run would do that others are to run. */
export async function describeRun(loaded: RunInput, options: RunOptions): Promise<DescribedRun> {
  const { eval: spec } = loaded;
  const redact = createRedactor(loaded.secrets);
  const plan: Plan = {
    ...createPlan(spec, availableParallelism()),
    ...exact({ maxWarnings: options.maxWarnings, baseline: options.baseline }),
  };
  if (plan.baseline !== undefined) (await import("../report/baseline.ts")).refuseBaseline(plan, undefined);
  requireWorkspaces(loaded);
  const startedAt = new Date().toISOString();
  const environment = redact(ownEnvironment(spec, redact));
  return {
    plan: withoutSecrets(plan, redact),
    head: {
      id: runId(startedAt),
      startedAt,
      environment,
      source: redact(sourceOf(loaded)),
      ...exact({ command: options.command && redact(options.command) }),
    },
    redact,
  };
}

/** The extensions of the tasks that run; undefined if there are none. */
function extensionsIn(
  { eval: runnable }: RunInput,
  extensions: PreparedExtensions,
): RunEnvironment["extensions"] {
  const summaries = extensionSummaries(runnable, (each) => {
    const { version: resolved, hash, manifest } = extensions.of(each).resolved;
    return { version: resolved ?? manifest?.version, hash };
  });
  return summaries.length === 0 ? undefined : summaries;
}

/** The environment without what is known only when the extensions are prepared. Hashes are made of what has no secrets. */
function ownEnvironment(spec: Eval, redact: Redact): RunEnvironment {
  // More time is what helps trials that ran out of it, so that times may change.
  const { trialMs: _, callMs: __, modelMs: ___, ...use } = spec.limits;
  const agents = actingAgents(spec).map(
    (agent) => [agent.name, fingerprintOfJson(redact(agentSettings(agent)))] as const,
  );
  return exact({
    ...runEnvironment(spec, versions()),
    agentHashes: agents.length === 0 ? undefined : Object.fromEntries(agents),
    limits: fingerprintOfJson(use),
    prices: spec.prices && fingerprintOfJson(spec.prices),
  });
}

/** Folders of recordings. */
export interface RecordingFlags {
  /** Gets a recording of each trial. */
  readonly record?: string;
  /** Takes the place of servers and models. */
  readonly replay?: string;
  /** Takes the place of servers. */
  readonly replayServers?: string;
  /** Takes the place of models. */
  readonly replayModels?: string;
}

/** What flags or options say of recordings; undefined: nothing. */
export function recordingOf({
  record,
  replay,
  replayServers,
  replayModels,
}: RecordingFlags): RecordReplayOptions | undefined {
  const sides = [
    ...(replay === undefined && replayServers === undefined ? [] : ["servers" as const]),
    ...(replay === undefined && replayModels === undefined ? [] : ["models" as const]),
  ];
  const folder = replay ?? replayServers ?? replayModels;
  if (folder === undefined) return record === undefined ? undefined : { record };
  return { replay: { folder, sides } };
}

/** Models that are replayed need no key. Throws `usage/invalid-option` for agents whose models cannot be replayed. */
function withoutKeys(loaded: RunInput): RunInput {
  const program = actingAgents(loaded.eval).find(({ type }) => type === "acp" || type === "command");
  if (program !== undefined)
    throw new McpvalsError(
      "usage/invalid-option",
      `agent "${program.name}" is a program, and what it asks its model is not recorded`,
      { hint: "Replay only its servers, with --replay-servers." },
    );
  const { agents, judge, userModel, ...spec } = loaded.eval;
  return {
    ...loaded,
    eval: {
      ...spec,
      agents: agents.map((agent) => (agent.type === "model" ? withKey(agent) : agent)),
      ...exact({ judge: judge && withKey(judge), userModel: userModel && withKey(userModel) }),
    },
  };
}

function withKey<M extends ModelSpec>(model: M): M {
  return { apiKey: "replayed", ...model };
}

/** Only the trials that have results. */
export function withTrials(plan: Plan, results: readonly TrialResult[]): Plan {
  const ids = new Set(results.map(({ id }) => id));
  return { ...plan, trials: plan.trials.filter(({ id }) => ids.has(id)) };
}

/** The run of which another tries something again, and the first one where that is a retry itself. */
async function retryOfRun(run: OpenedRun): Promise<NonNullable<RunResult["retryOf"]>> {
  const first = (await import("../report/baseline.ts")).originOf(run);
  return exact({ id: run.id, startedAt: run.startedAt, first: first === run.id ? undefined : first });
}

function versions(): Pick<RunEnvironment, "mcpvals" | "node" | "platform"> {
  return { mcpvals: version, node: process.versions.node, platform: process.platform };
}

function withoutSecrets(plan: Plan, redact: Redact): Plan {
  // One by one, since the JSON of all can be many megabytes.
  const trials = plan.trials.map((trial) => redact(trial));
  return { ...redact({ ...plan, trials: [] }), trials };
}

/** Creates the folder of a run, with the plan without secrets; undefined if nothing is to be written. */
async function folderOf(
  head: Parameters<typeof createRunFolder>[1],
  plan: Plan,
  { cwd, output }: RunOptions,
  redact: Redact,
): Promise<RunFolder | undefined> {
  if (output === false) return undefined;
  if (output === undefined) refusePlanted(cwd);
  return createRunFolder(resolve(cwd, output ?? defaultRunsFolder), head, withoutSecrets(plan, redact));
}

/** Gives a function that creates agents by name, and loads the code of each once. */
function agentFactory(
  { eval: { agents, limits }, env }: RunInput,
  accounts: SharedLimits,
  onSecret: Redact["add"],
): TrialServices["createAgent"] {
  const loads = new Map<string, ReturnType<typeof loadAgent>>();
  return async (name) => {
    const agent = agents.find((candidate) => candidate.name === name);
    if (agent === undefined) throw new Error(`the plan names an agent that the eval lacks: ${name}`);
    const load =
      loads.get(name) ?? loadAgent(agent, { env, modelMs: limits.modelMs, accounts, onSecret, version });
    loads.set(name, load);
    return (await load)();
  };
}

/** Loaded only for tasks with a user that a model plays. */
async function userModelOf(
  { eval: { tasks, userModel, limits }, env }: RunInput,
  accounts: SharedLimits,
): Promise<TrialServices["askUserModel"]> {
  if (userModel === undefined || !tasks.some((task) => simulatedUserOf(task)?.kind === "model"))
    return undefined;
  const { createUserModel } = await import("../agents/simulated-user.ts");
  return createUserModel(userModel, { env, accounts, modelMs: limits.modelMs });
}

/** The code of hooks is loaded only for an eval that has some. */
async function hooksOf(
  { eval: { hooks }, env }: RunInput,
  redact: Redact,
): Promise<StartedHooks | undefined> {
  return hooks && (await import("./hooks.ts")).createHooks(hooks, { env, redact });
}

/** The file, or the folder of tasks, of a run: runs of the same source can be compared. */
export function sourceOf({ file, dir }: Pick<LoadedConfig, "file" | "dir">): string {
  return file ?? dir;
}

/** The commands and URLs of a check that has no file as its target; undefined for every other run. */
function targetsOf(
  { file, eval: { tasks } }: RunInput,
  { servers }: RunResult["environment"],
): string | undefined {
  if (file !== undefined || !tasks.some(({ form }) => form === "check")) return undefined;
  const targets = Object.values(servers).map(asObject);
  return targets.flatMap(({ url, command }) => asText(url) ?? asText(command) ?? []).join(", ");
}

/** Without the tasks that are skipped in every trial, whose extensions are not needed. */
function withoutSkipped(loaded: RunInput, { trials }: Plan, missing: MissingRequirements): RunInput {
  const runnable = trials.filter(
    ({ task, variant, attempt }) => attempt === 1 && missing({ task, variant }).length === 0,
  );
  const names = new Set(runnable.map(({ task }) => task));
  const { eval: spec } = loaded;
  return { ...loaded, eval: { ...spec, tasks: spec.tasks.filter(({ name }) => names.has(name)) } };
}

/** A signal that aborts with the given one, with an McpvalsError as its reason. */
function followSignal(signal: AbortSignal | undefined): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const interrupt = (): void =>
    controller.abort(
      new McpvalsError("run/interrupted", "the run was interrupted", { cause: signal?.reason }),
    );
  if (signal?.aborted === true) interrupt();
  signal?.addEventListener("abort", interrupt, { once: true });
  // Node creates a table with the first listener of a signal and removes it with the last one: without this listener, one for each trial.
  controller.signal.addEventListener("abort", () => undefined);
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => signal?.removeEventListener("abort", interrupt),
  };
}

/** Open run folders. They share one listener, since Node warns about more than ten. */
const unflushed = new Set<() => void>();

function flushAll(): void {
  for (const flush of unflushed) flush();
}

/** Writes buffered events if the process exits before the run ends. */
function flushOnExit(folder: RunFolder | undefined): Disposable & { readonly flush: () => void } {
  const flush = (): void => folder?.flush();
  if (unflushed.size === 0) process.once("exit", flushAll);
  unflushed.add(flush);
  return {
    flush,
    [Symbol.dispose]() {
      unflushed.delete(flush);
      if (unflushed.size === 0) process.off("exit", flushAll);
    },
  };
}

/** A hash of what the trials of a plan are, however many run at once. */
function trialsHash({ trials }: Plan): string {
  return fingerprintOfJson(trials.map((trial) => ({ ...trial, lane: undefined })));
}
