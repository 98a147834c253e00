import type { LoadedConfig } from "../config/load-config.ts";
import type { AgentSpec, Eval, Task } from "../core/formats/model.ts";
import { collectEvidence } from "../core/report/collect-evidence.ts";
import { differencesIn, type ProofTrial, proveTask, type TaskProof } from "../core/report/proof.ts";
import type { Reporter } from "../core/report/reporter.ts";
import type { TraceEvent } from "../core/trace/events.ts";
import type { ExtensionsOptions } from "../extensions-of.ts";
import { run, type RunOptions } from "../run.ts";

export interface ProveOptions
  extends Pick<RunOptions, "output" | "strict" | "allowOutside">, ExtensionsOptions {
  /** Tasks at once. */
  readonly concurrency: number;
  readonly signal: AbortSignal;
}

const nothing: AgentSpec = { type: "null", name: "null" };
const oracle: AgentSpec = { type: "oracle", name: "oracle" };

/**
 * Runs tasks from files of their own with an agent that does nothing and with the one that plays their solutions, each
 * trial by itself, and judges what came of it. Throws as `run` does.
 */
export async function proveTasks(loaded: LoadedConfig, options: ProveOptions): Promise<readonly TaskProof[]> {
  const { tasks } = loaded.eval;
  const solvable = tasks.filter((task) => task.portable?.solution !== undefined);
  const first = await trialsOf(nothing, tasks, { loaded, options });
  const second = await trialsOf(oracle, solvable, { loaded, options });
  return tasks.map((task) =>
    proveTask(task, { nothing: first.get(task.name), oracle: second.get(task.name) }),
  );
}

interface Place {
  readonly loaded: LoadedConfig;
  readonly options: ProveOptions;
}

type Trials = ReadonlyMap<string, ProofTrial>;

/** One trial of each task; those that seem to have left something behind, again when nothing else runs beside them. */
async function trialsOf(agent: AgentSpec, tasks: readonly Task[], place: Place): Promise<Trials> {
  const trials = await runTrials(agent, tasks, place);
  const { concurrency, signal } = place.options;
  const changed = tasks.filter((task) => (trials.get(task.name)?.differences?.length ?? 0) > 0);
  if (concurrency === 1 || changed.length === 0 || signal.aborted) return trials;
  const alone = await runTrials(agent, changed, { ...place, options: { ...place.options, concurrency: 1 } });
  return new Map([...trials, ...alone]);
}

async function runTrials(
  agent: AgentSpec,
  tasks: readonly Task[],
  { loaded, options }: Place,
): Promise<Trials> {
  const { concurrency, ...rest } = options;
  if (tasks.length === 0 || options.signal.aborted) return new Map();
  const trials = new Map<string, ProofTrial>();
  const spec: Eval = {
    ...loaded.eval,
    tasks: tasks.map(once),
    agents: [agent],
    trials: 1,
    concurrency,
  };
  const reporters = [{ name: "validate", reporter: collector(trials) }];
  const { failures } = await run(
    { ...loaded, eval: spec },
    { output: false, ...rest, reporters, compareState: true },
  );
  const [failure] = failures;
  if (failure !== undefined) throw failure.error;
  return trials;
}

/** A task that is tried once, whatever number of attempts it asks for. */
function once(task: Task): Task {
  if (task.portable === undefined) return task;
  const { runs: _, ...portable } = task.portable;
  return { ...task, portable };
}

/** Keeps what is to be known of every trial, by task. */
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
      trials.set(result.task, {
        result,
        differences: differencesIn(known),
        evidence: collectEvidence(known, result.grades),
      });
    },
  };
}
