import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { createAgent } from "../agents/create-agent.ts";
import type { LoadedConfig } from "../load/load-config.ts";
import { McpvalsError, serializeError } from "../core/errors/error.ts";
import type { Grade } from "../core/grade/grade.ts";
import type { GradeContext, Grader } from "../core/grade/grader.ts";
import { gradersOf } from "../core/grade/graders.ts";
import { createPlan, type Plan } from "../core/plan/plan.ts";
import { KeptEvidence } from "../core/report/collect-evidence.ts";
import { extensionSummaries, runEnvironment } from "../core/report/environment.ts";
import {
  createMultiplexer,
  type Multiplexer,
  type NamedReporter,
  type ReporterFailure,
} from "../core/report/multiplexer.ts";
import type { RunEnvironment, RunResult } from "../core/report/result.ts";
import { runVerdict, summarize } from "../core/report/summarize.ts";
import type { Emit } from "../core/trace/events.ts";
import { type ExtensionsInput, extensionsOf, type ExtensionsOptions } from "./extensions-of.ts";
import type { PreparedExtensions } from "../extensions/prepared-extensions.ts";
import { createRedactor, type Redact } from "../core/trace/redact.ts";
import type { Trajectory } from "../core/trace/trajectory.ts";
import { rememberFolders, type StateMemory } from "./state-comparison.ts";
import type { TrialPorts } from "./trial-ports.ts";
import { runTrials, type TrialsContext } from "./run-trials.ts";
import { usesJudge } from "../core/formats/uses-judge.ts";
import { type MissingRequirements, missingRequirements } from "./missing-requirements.ts";
import { createJudge } from "../graders/judge.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { createStepJudge } from "../graders/step-judge.ts";
import { checkModel } from "../models/check-model.ts";
import { hearTokens } from "../servers/http/oauth-tokens.ts";
import { createProvisioning, type Provisioning } from "./provisioning.ts";
import { createRunFolder, defaultRunsFolder, refusePlanted, type RunFolder } from "../store/run-folder.ts";
import { version } from "../core/version.ts";

/** The parts of a loaded config that a run needs. */
export type RunInput = ExtensionsInput & Pick<LoadedConfig, "overrides" | "judgeError">;

/** How to run an eval, beyond what the eval itself says. */
export interface RunOptions extends ExtensionsOptions {
  /** Folder that gets the run's folder, relative to `cwd`; false keeps nothing on disk. Default: `.mcpvals/runs`. */
  readonly output?: string | false;
  readonly reporters?: readonly NamedReporter[];
  /** Stop after the first trial that does not pass. */
  readonly bail?: boolean;
  /** Whether a task that lacks what it requires is an error instead of being skipped. */
  readonly strict?: boolean;
  /** Whether paths of tasks may leave their folders. */
  readonly allowOutside?: boolean;
  /** Present: each trial compares the state after cleanup with that before setup, of which this knows more. */
  readonly compareState?: StateMemory;
  /** Aborting ends the trials at work, stops their servers and gives a result with the verdict `interrupted`. */
  readonly signal?: AbortSignal;
}

export interface RunOutcome {
  readonly result: RunResult;
  /** Absent when nothing was kept. */
  readonly folder?: string;
  /** Reporters, or the run folder, that broke; the run went on without them. */
  readonly failures: readonly ReporterFailure[];
}

/**
 * Runs everything that a loaded eval asks for: the one place that puts the parts together. Before anything has started
 * it throws McpvalsError of kind `usage`, `extension/unreachable` for an extension that cannot be fetched, and
 * `run/interrupted`; from then on whatever happens is in the result.
 */
export async function run(loaded: RunInput, options: RunOptions): Promise<RunOutcome> {
  checkModels(loaded);
  const started = performance.now();
  const begun = describeRun(loaded);
  using _ = hearTokens(begun.redact.add);
  const { id, plan, startedAt } = begun;
  const reporters = createMultiplexer(options.reporters ?? []);
  const evidence = new KeptEvidence();
  await using validator = new SchemaValidator();
  using interruption = interruptionOf(options.signal);
  const { signal } = interruption;
  const ports = { validateSchema: validator.validate.bind(validator), signal };
  const missing = await missingRequirements(loaded, plan.tasks);
  const able = withoutSkipped(loaded, plan, missing);
  const extensions = await beforeTrials(reporters, () => extensionsOf(able, options, ports));
  const head = withExtensions(begun, able, extensions);
  const { environment } = head;
  await using servers = provisioningOf(loaded, plan, validator);
  await beforeTrials(reporters, () => servers.startRequired(signal));
  await rememberFolders(options.compareState, plan.tasks);
  await using folder = await openFolder(head, options);
  using exit = flushOnExit(folder);
  const given = { loaded, options, head, signal, missing, extensions };
  const parts = { ...given, reporters, evidence, validator, servers, folder };
  const context = trialsContext(parts);
  const place = folder === undefined ? {} : { folder: folder.path };
  try {
    await reporters.onRunStart({ id, plan, startedAt, environment, ...place });
    const trials = await runTrials(plan, context);
    await servers[Symbol.asyncDispose]();
    const verdict = runVerdict(trials, { interrupted: signal.aborted });
    const durationMs = Math.round(performance.now() - started);
    const result = resultOf(head, { trials, verdict, durationMs });
    const failures = await keep(folder, result);
    await reporters.onRunEnd({ result, evidence: evidence.byTrial });
    return { result, failures: [...failures, ...reporters.errors], ...place };
  } finally {
    exit.flush();
    await reporters.close();
  }
}

/** Without the tasks that lack what they require in every trial: what they use need not be there either. */
function withoutSkipped(loaded: RunInput, { trials }: Plan, missing: MissingRequirements): RunInput {
  const able = trials.filter(({ task, variant }) => missing({ task, variant }).length === 0);
  const names = new Set(able.map(({ task }) => task));
  const { eval: spec } = loaded;
  return { ...loaded, eval: { ...spec, tasks: spec.tasks.filter(({ name }) => names.has(name)) } };
}

/** Reporters have nothing to tell of a run that does not begin. */
async function beforeTrials<T>(reporters: Multiplexer, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    await reporters.close();
    throw error;
  }
}

/** What is known of a run before its first trial. */
interface RunHead {
  readonly id: string;
  readonly startedAt: string;
  readonly plan: Plan;
  readonly environment: RunEnvironment;
  readonly redact: Redact;
}

function describeRun(loaded: RunInput): RunHead {
  const startedAt = new Date().toISOString();
  const redact = createRedactor(loaded.secrets);
  const versions = { mcpvals: version, node: process.versions.node, platform: process.platform };
  return {
    id: runId(startedAt),
    startedAt,
    plan: createPlan(loaded.eval),
    environment: redact(runEnvironment(loaded.eval, versions)),
    redact,
  };
}

function withExtensions(head: RunHead, { eval: spec }: RunInput, prepared: PreparedExtensions): RunHead {
  const extensions = extensionSummaries(spec, (each) => {
    const { version, hash, manifest } = prepared.of(each).resolved;
    return { version: version ?? manifest?.version, hash };
  });
  if (extensions.length === 0) return head;
  return { ...head, environment: { ...head.environment, extensions: head.redact(extensions) } };
}

function provisioningOf({ eval: spec, env }: RunInput, plan: Plan, validator: SchemaValidator): Provisioning {
  return createProvisioning({
    eval: spec,
    plan,
    env,
    validateSchema: (schema, value) => validator.validate(schema, value),
  });
}

async function openFolder(head: RunHead, { cwd, output }: RunOptions): Promise<RunFolder | undefined> {
  if (output === false) return undefined;
  if (output === undefined) refusePlanted(cwd);
  const { id, startedAt, environment, plan, redact } = head;
  return createRunFolder(
    resolve(cwd, output ?? defaultRunsFolder),
    { id, startedAt, environment },
    redact(plan),
  );
}

function resultOf(
  { id, plan, startedAt, environment }: RunHead,
  { trials, verdict, durationMs }: Pick<RunResult, "trials" | "verdict" | "durationMs">,
): RunResult {
  return {
    schema: "mcpvals.result/1",
    id,
    name: plan.name,
    verdict,
    startedAt,
    durationMs,
    summary: summarize(trials),
    trials,
    environment,
  };
}

interface RunParts {
  readonly loaded: RunInput;
  readonly options: RunOptions;
  readonly head: RunHead;
  readonly reporters: Multiplexer;
  readonly evidence: KeptEvidence;
  readonly validator: SchemaValidator;
  readonly servers: Provisioning;
  readonly folder: RunFolder | undefined;
  readonly signal: AbortSignal;
  /** What tasks require and is not there. */
  readonly missing: MissingRequirements;
  readonly extensions: PreparedExtensions;
}

function trialsContext(parts: RunParts): TrialsContext {
  const { options, head, reporters, evidence, servers, folder, signal } = parts;
  return {
    ports: trialPorts(parts),
    redact: head.redact,
    bail: options.bail ?? false,
    signal,
    grade: (trajectory, emit) => gradeTrial(trajectory, emit, parts),
    onTrialStart: async (trial) => reporters.onTrialStart(trial),
    onEvent(event, json) {
      folder?.append(event, json);
      reporters.onEvent(event);
    },
    async settle(result, events) {
      await servers.trialEnded(result);
      if (result.verdict !== "pass" && result.verdict !== "skip") evidence.keep(result, events);
    },
    async onTrialEnd(result) {
      folder?.commit();
      await reporters.onTrialEnd(result);
    },
  };
}

/** A mistyped model, and a judge that cannot be asked, are found before anything starts; one that nobody asks is not looked at. */
function checkModels({ eval: spec, env, judgeError }: RunInput): void {
  const acts = spec.tasks.some((task) => task.turns.length > 0);
  const asks = spec.tasks.some((task) => usesJudge(task.verify));
  if (asks && judgeError !== undefined) throw judgeError;
  const judges = acts || asks;
  for (const agent of spec.agents) if (acts && agent.type === "model") checkModel(agent, env);
  if (judges && spec.judge !== undefined) checkModel(spec.judge, env);
}

/** A disk that fills up during a run costs the stored result, never the reported one. */
async function keep(folder: RunFolder | undefined, result: RunResult): Promise<readonly ReporterFailure[]> {
  try {
    await folder?.finish(result);
    return [];
  } catch (error) {
    return [{ reporter: `run folder ${folder?.path ?? ""}`, error }];
  }
}

async function gradeTrial(
  trajectory: Trajectory,
  emit: Emit,
  { loaded, validator, signal }: RunParts,
): Promise<readonly Grade[]> {
  const { eval: spec, env } = loaded;
  const asked = spec.judgesStepsOnly === true ? undefined : spec.judge;
  const judge = asked && createJudge(asked, { env, emit, signal, modelMs: spec.limits.modelMs });
  const context: GradeContext = { validateSchema: (schema, value) => validator.validate(schema, value) };
  const graders = gradersOf(trajectory.task, judge).filter(
    (grader) => grader.applies?.(trajectory) !== false,
  );
  return Promise.all(graders.map((grader) => gradeSafely(grader, trajectory, { context, signal })));
}

/** A grader that breaks leaves its own trial without a verdict, never the run. Throws only the signal's reason. */
async function gradeSafely(
  grader: Grader,
  trajectory: Trajectory,
  { context, signal }: { readonly context: GradeContext; readonly signal: AbortSignal },
): Promise<Grade> {
  try {
    return await grader.grade(trajectory, context);
  } catch (cause) {
    if (signal.aborted) throw cause;
    const error = serializeError(cause);
    return { grader: grader.name, verdict: "error", score: null, reason: error.message, evidence: [], error };
  }
}

function trialPorts({ loaded, options, missing, validator, servers, extensions }: RunParts): TrialPorts {
  const { eval: spec, env, overrides } = loaded;
  return {
    limits: spec.limits,
    variables: { shell: env, overrides },
    allowOutside: options.allowOutside ?? false,
    strict: options.strict ?? false,
    compareState: options.compareState,
    missing: ({ trial: { task, variant } }) => missing({ task, variant }),
    startServer: servers.startServer,
    urlOf: servers.urlOf,
    extensions,
    validateSchema: (schema, value) => validator.validate(schema, value),
    createJudge: (emit) =>
      spec.judge && createStepJudge(spec.judge, { env, emit, modelMs: spec.limits.modelMs }),
    createAgent(name) {
      const agent = spec.agents.find((candidate) => candidate.name === name);
      if (agent === undefined) throw new Error(`the plan names an agent that the eval lacks: ${name}`);
      return createAgent(agent, { env, modelMs: spec.limits.modelMs, version });
    },
  };
}

/** A signal that follows the caller's, with an McpvalsError as its reason. */
function interruptionOf(signal: AbortSignal | undefined): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const interrupt = (): void =>
    controller.abort(
      new McpvalsError("run/interrupted", "the run was interrupted", { cause: signal?.reason }),
    );
  if (signal?.aborted === true) interrupt();
  signal?.addEventListener("abort", interrupt, { once: true });
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => signal?.removeEventListener("abort", interrupt),
  };
}

/** What is to be written at the process's end; one listener for all, so that many runs at once give no warning. */
const unflushed = new Set<() => void>();

function flushAll(): void {
  for (const flush of unflushed) flush();
}

/** Writes what is still in memory when the process ends before the run does. */
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

/**
 * Sorts by time, to the millisecond, and is safe as a folder name: `20261121-224559-3f9a2c1`, in UTC. The last part
 * begins with the milliseconds, in hexadecimal; the rest of it is random.
 */
function runId(startedAt: string): string {
  const stamp = startedAt.replaceAll(/[-:]/g, "").slice(0, 15).replace("T", "-");
  const milliseconds = Number(startedAt.slice(20, 23)).toString(16).padStart(3, "0");
  return `${stamp}-${milliseconds}${randomBytes(2).toString("hex")}`;
}
