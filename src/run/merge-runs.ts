import { resolve } from "node:path";
import { McpvalsError } from "../base/error.ts";
import { exact } from "../base/json.ts";
import { type Plan, taskOf } from "../model/plan.ts";
import type { TrialResult } from "../model/result.ts";
import { KeptEvidence } from "../report/evidence.ts";
import { fingerprintsOf } from "../report/fingerprint.ts";
import { createMultiplexer } from "../report/reporter.ts";
import { notRun, RunTally, ungradedTrial } from "../report/result.ts";
import {
  createRunFolder,
  defaultRunsFolder,
  type OpenedRun,
  refusePlanted,
  runId,
} from "../store/run-folder.ts";
import { copyEnded, refuseChanged } from "./resume.ts";
import type { RunOptions, RunOutcome } from "./run.ts";
import { finishRun } from "./finish-run.ts";

/** How to merge runs. */
export interface MergeOptions extends Pick<RunOptions, "cwd" | "reporters"> {
  /** Folder that gets the new run's folder, relative to `cwd`. Default: `.mcpvals/runs`. */
  readonly output?: string;
}

/**
 * Makes one run of the parts that `run --shard` has run, with the thresholds that hold for all of it. Throws McpvalsError
 * `store/not-mergeable` for parts that are missing, twice, or of different runs, and `store/corrupt`.
 */
export async function mergeRuns(
  parts: readonly OpenedRun[],
  { cwd, output, reporters: given = [] }: MergeOptions,
): Promise<Pick<RunOutcome, "result" | "plan" | "folder" | "failures">> {
  const plan = mergedPlan(parts);
  const [first] = parts;
  if (first === undefined) throw notMergeable("no run is named");
  const startedAt = parts.map((part) => part.startedAt).toSorted()[0] ?? first.startedAt;
  const head = { id: runId(new Date().toISOString()), startedAt, environment: first.environment };
  if (output === undefined) refusePlanted(cwd);
  const runs = resolve(cwd, output ?? defaultRunsFolder);
  // The plan is written last: what an interrupted merging leaves is not a run.
  await using folder = await createRunFolder(runs, { ...head, ...exact({ source: first.source }) });
  const reporters = createMultiplexer(given);
  const evidence = new KeptEvidence();
  const tally = new RunTally(plan);
  const results = new Map<string, TrialResult>();
  try {
    for (const part of parts)
      await copyEnded(part, folder, (result, trajectory) => {
        results.set(result.id, result);
        tally.add(trajectory, result);
        if (result.verdict !== "pass" && result.verdict !== "skip") evidence.keep(result, trajectory);
      });
    const interrupted = parts.some((part) => part.durationMs === undefined || part.interrupted === true);
    const ordered = plan.trials.map(
      (trial) =>
        results.get(trial.id) ??
        ungradedTrial(trial, taskOf(trial, plan), {
          verdict: "skip",
          error: notRun({ interrupted, usedUp: parts.find(({ budget }) => budget?.usedUp)?.budget?.usedUp }),
          durationMs: 0,
        }),
    );
    await reporters.onRunStart({ plan, ...head, folder: folder.path });
    for (const result of ordered) await reporters.onTrialEnd(result);
    const durationMs = parts.reduce((longest, part) => Math.max(longest, part.durationMs ?? 0), 0);
    const fingerprints = fingerprintsOf(plan.tasks);
    const ended = { ...head, durationMs, fingerprints, comparison: undefined };
    const result = tally.result(ended, ordered, plan, { interrupted });
    await finishRun(folder, result, plan);
    await reporters.onRunEnd({ result, evidence: evidence.byTrial });
    return { result, plan, folder: folder.path, failures: reporters.errors };
  } catch (error) {
    await folder.discard();
    throw error;
  } finally {
    await reporters.close();
  }
}

/** The plan of which the runs are the parts. */
function mergedPlan(parts: readonly OpenedRun[]): Plan {
  const [first] = parts;
  const byIndex = new Map<number, OpenedRun>();
  for (const part of parts) {
    const { shard } = part.plan;
    if (shard === undefined) throw notMergeable(`the run ${part.id} is not a part: it ran without --shard`);
    const { index, count } = shard;
    if (count !== first?.plan.shard?.count || shard.of !== first.plan.shard.of)
      throw notMergeable(`the runs ${first?.id} and ${part.id} are not parts of the same run`);
    const same = byIndex.get(index);
    if (same !== undefined)
      throw notMergeable(`the runs ${same.id} and ${part.id} are both part ${index} of ${count}`);
    byIndex.set(index, part);
  }
  const { count = 0 } = first?.plan.shard ?? {};
  const missing = Array.from({ length: count }, (_, at) => at + 1).filter((index) => !byIndex.has(index));
  if (first === undefined || missing.length > 0)
    throw notMergeable(
      missing.length === 1
        ? `part ${missing[0]} of ${count} is missing`
        : `parts ${missing.join(", ")} of ${count} are missing`,
    );
  const tasks = new Map(parts.flatMap(({ plan }) => plan.tasks.map((task) => [task.name, task] as const)));
  for (const part of parts)
    refuseChanged(part, {
      plan: {
        ...first.plan,
        trials: part.plan.trials,
        tasks: part.plan.tasks.map((task) => tasks.get(task.name) ?? task),
      },
      environment: first.environment,
    });
  const trials = parts
    .flatMap(({ plan }) => plan.trials)
    .toSorted((a, b) => Number(a.id.slice(1)) - Number(b.id.slice(1)));
  const order = [...new Set(trials.map(({ task }) => task))];
  const { shard: _, ...plan } = first.plan;
  return { ...plan, tasks: order.flatMap((name) => tasks.get(name) ?? []), trials };
}

function notMergeable(message: string): McpvalsError {
  return new McpvalsError("store/not-mergeable", message);
}
