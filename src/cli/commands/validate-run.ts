import { resolve } from "node:path";
import { McpvalsError, messageOf } from "../../base/error.ts";
import type { AgentSpec } from "../../model/agent.ts";
import { type GraderSpec, simulatedUserOf, type Task, type Turn } from "../../model/task.ts";
import type { Json } from "../../base/json.ts";
import { applyOverrides, type Trial } from "../../model/plan.ts";
import { collectEvidence } from "../../report/evidence.ts";
import { readTrace } from "../../trace/trajectory.ts";
import {
  comparisonIn,
  isInTaskFolder,
  proofExitCode,
  type ProofTrial,
  canFail,
  proveTask,
  type TaskProof,
  wasCutOff,
} from "../../report/proof.ts";
import type { Reporter } from "../../report/reporter.ts";
import { countOf, visibleText } from "../../base/visible-text.ts";
import type { TraceEvent } from "../../model/event.ts";
import type { LoadedConfig } from "../../formats/assemble-eval.ts";
import { load } from "../../formats/load.ts";
import { type ProofEnd, proofLines, untouchedWarning } from "../../report/proof-text.ts";
import { type ExtensionsOptions, prepare } from "../../run/prepare.ts";
import { run, type RunOptions } from "../../run/run.ts";
import { recordProofs } from "../../store/run-folder.ts";
import { type ConfigQuery, extensionOptions, type ExtensionRunFlags } from "../flags.ts";
import {
  abortOnInterrupt,
  stdoutOutput,
  workingFolder,
  writeError,
  writeJson,
  writeNotes,
  writeOut,
  hideSecrets,
} from "../terminal.ts";
import { createStyle } from "../../base/columns.ts";

export interface ValidateRunFlags extends ExtensionRunFlags {
  readonly concurrency?: number;
  readonly output?: string;
  readonly strict?: boolean;
  readonly timeout?: number;
}

const defaultConcurrency = 4;

/**
 * `mcpvals validate --run`; returns the exit code: 0 if all tasks that could be tried are proven, 1 if one is not, 3 if the
 * environment broke or no task could be tried, 130 after an interruption. Throws McpvalsError of kind `usage` for invalid
 * files.
 */
export async function executeValidateRun(
  { load: options, filters, json }: ConfigQuery,
  flags: ValidateRunFlags,
): Promise<number> {
  const started = performance.now();
  if ((options.agents ?? []).length > 0)
    throw new McpvalsError("usage/invalid-option", "--run proves tasks with the agents null and oracle", {
      hint: "Leave out --agent, or leave out --run to check the files with that agent.",
    });
  using interrupt = abortOnInterrupt(flags.output === undefined ? undefined : flags);
  const { signal } = interrupt;
  const cwd = workingFolder();
  const loaded = provableOnly(
    prepare(await load({ ...options, cwd, agents: ["null", "oracle"], signal }), {
      ...filters,
      timeoutMs: flags.timeout,
    }),
  );
  hideSecrets(loaded.secrets);
  if (!json) {
    writeNotes(loaded);
    if (stdoutOutput().isTerminal) writeError(`Proving ${countOf(loaded.eval.tasks.length, "task")} …`);
  }
  const proofs = await proveTasks(loaded, {
    cwd,
    output: flags.output ?? false,
    strict: flags.strict ?? false,
    allowOutside: options.allowOutside ?? false,
    concurrency: flags.concurrency ?? defaultConcurrency,
    signal,
    ...extensionOptions(flags),
  });
  rememberProofs(cwd, proofs);
  const end = { proofs, durationMs: performance.now() - started, interrupted: signal.aborted };
  const { isTerminal, colors, columns } = stdoutOutput();
  const page = { style: createStyle(colors), width: isTerminal ? columns() : Infinity };
  if (json) writeJson(report(end), 2);
  else writeOut(proofLines(end, page).join("\n"));
  return proofExitCode(proofs, end);
}

/** Stores which tasks fail when the agent does nothing. A write error is only a note, since later runs only lack this information. */
function rememberProofs(cwd: string, proofs: readonly TaskProof[]): void {
  const byTask = Map.groupBy(proofs, ({ task }) => task);
  const tasks = [...byTask].filter(([, each]) => each.every(canFail)).map(([task]) => task);
  if (tasks.length === 0) return;
  try {
    recordProofs(cwd, tasks);
  } catch (error) {
    writeError(visibleText(`note: cannot store which tasks were proven: ${messageOf(error)}`));
  }
}

/** Tool tests have no agent, and of what must not trigger anything an agent that does nothing is the best. */
function provableOnly(loaded: LoadedConfig): LoadedConfig {
  const tasks = loaded.eval.tasks.filter(
    ({ turns, verify, graders = [] }) =>
      turns.length > 0 && (verify.length > 0 || graders.length === 0 || !graders.every(forbidsOnly)),
  );
  const others = loaded.eval.tasks.length - tasks.length;
  if (tasks.length === 0)
    throw new McpvalsError("usage/no-match", "there is no task and no workflow to prove", {
      hint: "Name files of kind Task, an Eval, or a config with workflows; leave out --run to only check files.",
    });
  if (others > 0)
    writeError(
      `note: ${countOf(others, "test")} left out: tool tests have no agent, and doing nothing is right where a prompt must not trigger anything`,
    );
  return { ...loaded, eval: { ...loaded.eval, tasks } };
}

function forbidsOnly({ type, config }: GraderSpec): boolean {
  return type === "trigger" && config["mode"] === "negative";
}

function report({ proofs, interrupted }: ProofEnd): Json {
  return {
    proven: proofExitCode(proofs, { interrupted }) === 0,
    ...(interrupted ? { interrupted } : {}),
    tasks: proofs.map(({ task, variant, status, problems, nothing, repeating, oracle }) => ({
      task: task.name,
      ...(variant === undefined ? {} : { variant }),
      file: task.portable?.file ?? null,
      status,
      null: trialReport(nothing),
      ...(repeating === undefined ? {} : { repeating: trialReport(repeating) }),
      oracle: trialReport(oracle),
      problems: problems.map((problem) => ({ ...problem })),
    })),
  };
}

function trialReport(trial: ProofTrial | undefined): Json {
  if (trial === undefined) return null;
  const { verdict, grades, error } = trial.result;
  const warnings = [...(trial.result.warnings ?? []), ...trial.untouched.map(untouchedWarning)];
  return {
    verdict,
    reasons:
      error === undefined ? grades.map(({ grader, reason }) => `${grader}: ${reason}`) : [error.message],
    restored: trial.differences === undefined || wasCutOff(trial) ? null : trial.differences.length === 0,
    ...(warnings.length === 0 ? {} : { warnings }),
  };
}

export interface ProveOptions
  extends Pick<RunOptions, "output" | "strict" | "allowOutside">, ExtensionsOptions {
  /** Maximum number of concurrent tasks. */
  readonly concurrency: number;
  readonly signal: AbortSignal;
}

const nothing: AgentSpec = { type: "null", name: "null" };
const oracle: AgentSpec = { type: "oracle", name: "oracle" };

/**
 * Runs portable tasks and workflows with an agent that does nothing, with one that repeats the prompt, and with the oracle, which plays
 * the solutions of tasks, and judges the trials.
 * Throws as `run` does.
 */
export async function proveTasks(loaded: LoadedConfig, options: ProveOptions): Promise<readonly TaskProof[]> {
  const { variants = [] } = loaded.eval;
  const tasks = loaded.eval.tasks.map(withoutUserModel);
  const solvable = tasks.filter((task) => task.portable?.solution !== undefined);
  const { cwd, output } = options;
  const except = typeof output === "string" ? { except: resolve(cwd, output) } : {};
  const place = { loaded, options, memory: { changes: new Map(), known: new Map(), ...except } };
  const first = await trialsOf(nothing, tasks, place);
  const results = [...first.values()].map(({ result }) => result);
  // Only for tasks where the answer of the agent can decide, and an empty answer does not pass.
  const answered = tasks.filter(({ name, form, verify, graders = [] }) => {
    const passes = results.some(({ task, verdict }) => task === name && verdict === "pass");
    const isRead = form === "workflow" || graders.length > 0 || /\bagent\b/.test(JSON.stringify(verify));
    return isRead && !passes;
  });
  const plan = answered.map(({ name, turns }) => [name, turns.flatMap(wordsOf)] as const);
  const echo: AgentSpec = { type: "scripted", name: "repeats the prompt", plan: Object.fromEntries(plan) };
  const repeated = await trialsOf(echo, answered, place);
  const second = await trialsOf(oracle, solvable, place);
  const sets = variants.length === 0 ? [{}] : variants.map(({ name: variant }) => ({ variant }));
  return tasks.flatMap((task) =>
    sets.map((set) => {
      const key = trialName({ task: task.name, ...set });
      const trials = { nothing: first.get(key), repeating: repeated.get(key), oracle: second.get(key) };
      return proveTask(task, { ...set, ...trials });
    }),
  );
}

/** All that the user of a turn can say. */
function wordsOf({ user }: Turn): readonly { readonly say: string }[] {
  if (typeof user === "string") return [{ say: user }];
  return user.kind === "script" ? user.replies.map(({ say }) => ({ say })) : [];
}

/** No model is asked: in the place of a user that one plays there is one that says its goal and its facts, and goes on to its limit. */
function withoutUserModel(task: Task): Task {
  const user = simulatedUserOf(task);
  if (user?.kind !== "model") return task;
  const words = [user.goal, ...user.facts];
  const replies = Array.from({ length: user.maxTurns }, (_, index) => ({ say: words[index] ?? "Go on." }));
  const turns = task.turns.map((turn) =>
    typeof turn.user === "string" ? turn : { ...turn, user: { kind: "script" as const, replies } },
  );
  return { ...task, turns };
}

interface Place {
  readonly loaded: LoadedConfig;
  readonly options: ProveOptions;
  readonly memory: NonNullable<RunOptions["compareState"]>;
}

/** By the result of `trialName`. */
type Trials = ReadonlyMap<string, ProofTrial>;

/**
 * One trial of each task in each variant. Tasks with `stateProbe` run one at a time, since the probe may read shared state.
 * Tasks in whose folder something changed are repeated alone: another task, or a process outside the run, may have changed it.
 */
async function trialsOf(agent: AgentSpec, tasks: readonly Task[], place: Place): Promise<Trials> {
  const { concurrency } = place.options;
  const isProbed = ({ portable }: Task): boolean =>
    concurrency === 1 || (portable?.stateProbe ?? []).length > 0;
  const probed = tasks.filter(isProbed);
  const others = tasks.filter((task) => !isProbed(task));
  const memory = { ...place.memory, folders: new Map() };
  const first = [
    ...(await runTrials(agent, others, { ...place, memory }, concurrency)),
    ...(await runTrials(agent, probed, place, 1)),
  ];
  const suspects = first.filter(([, { differences = [] }]) => differences.some(isInTaskFolder));
  const repeated = tasks.filter(({ name }) => suspects.some(([, { result }]) => result.task === name));
  const alone = await runTrials(agent, repeated, place, 1);
  const settled = suspects.map(([name, trial]): [string, ProofTrial] => {
    const later = alone.get(name);
    if (later?.differences === undefined || wasCutOff(later)) return [name, trial];
    return [name, { ...trial, differences: later.differences, untouched: later.untouched }];
  });
  return new Map([...first, ...settled]);
}

async function runTrials(
  agent: AgentSpec,
  tasks: readonly Task[],
  { loaded, options, memory }: Place,
  concurrency: number,
): Promise<Trials> {
  if (tasks.length === 0 || options.signal.aborted) return new Map();
  const trials = new Map<string, ProofTrial>();
  // One attempt, also for tasks that set more.
  const spec = applyOverrides({ ...loaded.eval, tasks, agents: [agent] }, { trials: 1, concurrency });
  const reporters = [{ name: "validate", reporter: collector(trials) }];
  const { failures } = await run(
    { ...loaded, eval: spec },
    { output: false, ...options, reporters, compareState: memory },
  );
  const [failure] = failures;
  if (failure !== undefined) throw failure.error;
  return trials;
}

/** Key of an agent's trial of a task in a variant. */
function trialName({ task, variant }: Pick<Trial, "task" | "variant">): string {
  return JSON.stringify([task, variant]);
}

/** Collects the trials for the proof. */
function collector(trials: Map<string, ProofTrial>): Reporter {
  const events = new Map<string, TraceEvent[]>();
  return {
    onEvent(event) {
      const known = events.get(event.trial);
      if (known === undefined) events.set(event.trial, [event]);
      else known.push(event);
    },
    onTrialEnd(result) {
      const known = events.get(result.id) ?? [];
      events.delete(result.id);
      trials.set(trialName(result), {
        result,
        ...comparisonIn(known),
        evidence: collectEvidence(readTrace(known), result.grades),
      });
    },
  };
}
