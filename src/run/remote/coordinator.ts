import { join, relative, resolve } from "node:path";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { isInside } from "../../base/files.ts";
import { exact } from "../../base/json.ts";
import { version } from "../../base/version.ts";
import type { TrialResult } from "../../model/result.ts";
import { pause } from "../../process/deadline.ts";
import { createBundle } from "../../store/bundle.ts";
import { limitsOf, RemoteRuns, type SubmittedRun } from "../../store/postgres/runs.ts";
import {
  createRunFolder,
  defaultRunsFolder,
  findRun,
  hasFile,
  openRun,
  refusePlanted,
  type RunFolder,
} from "../../store/run-folder.ts";
import type { Trajectory } from "../../trace/trajectory.ts";
import { resumeRun } from "../resume.ts";
import { describeRun, type RunInput, type RunOptions } from "../run.ts";
import { type Followed, type FollowOptions, followRun } from "./follow.ts";
import { longestWaitMs, platformHere } from "./worker.ts";

/** Where a run is followed from. */
export interface RemoteOptions extends Omit<FollowOptions, "wait" | "budget" | "currency" | "bail"> {
  readonly cwd: string;
  /** Folder that gets the run's folder, relative to `cwd`. Default: `.mcpvals/runs`. */
  readonly output?: string;
}

/** How a run is given to workers. */
export interface SubmitOptions extends Pick<
  RunOptions,
  "cwd" | "command" | "maxWarnings" | "baseline" | "budget" | "bail"
> {
  /** What a worker must have. */
  readonly labels: readonly string[];
  /** Absolute paths of what the command names beside its sources. */
  readonly files?: readonly string[];
}

/**
 * Gives a run to the workers of a database. Returns its id. Throws McpvalsError of kind `usage`, among them `bundle/…` for files that cannot
 * travel, and `store/unreachable`.
 */
export async function submitRun(url: string, loaded: RunInput, options: SubmitOptions): Promise<string> {
  const { cwd, labels, files = [] } = options;
  const { plan, head } = await describeRun(loaded, options);
  const { command } = head;
  if (command === undefined) throw new Error("a run for workers needs its command");
  const named = [...command.sources.map((source) => resolve(cwd, source)), ...files];
  for (const path of [loaded.file ?? loaded.dir, ...named])
    if (path !== cwd && !isInside(cwd, path))
      throw new McpvalsError(
        "usage/invalid-option",
        `--backend: ${path} is not below the working folder, whose files go to the workers`,
        {
          hint: "Start the run in a folder that has everything that it needs.",
        },
      );
  const sources = command.sources.map((source) => relative(cwd, resolve(cwd, source)) || ".");
  const bundle = await createBundle(cwd, { secrets: loaded.secrets });
  await using runs = await RemoteRuns.open(url);
  const flags = { ...command.flags, backend: runs.name };
  const run: SubmittedRun = {
    head: { ...head, command: { ...command, sources, flags } },
    plan,
    folder: cwd,
    bundle: bundle.manifest,
    labels,
    version,
    platform: platformHere(),
    limits: limitsOf(plan, loaded.eval.concurrency),
    rules: exact({ budget: options.budget, bail: options.bail, currency: loaded.eval.prices?.currency }),
  };
  await runs.use(() => runs.submit(run, bundle.read));
  return head.id;
}

/** Follows a run until it ends. Throws as {@link followRun}, and `store/not-found`. */
export async function attachRun(url: string, name: string, options: RemoteOptions): Promise<Followed> {
  const onOutage = (error: unknown): void => options.onNote?.(`${messageOf(error)}; trying again`);
  await using runs = await RemoteRuns.open(url, {
    waitMs: longestWaitMs,
    onOutage,
    signal: options.draining,
  });
  const run = await runs.persist(async () => runs.read(await idOf(runs, name)), {
    forMs: longestWaitMs,
    onOutage,
  });
  return await followRun(runs, run, (onEnded) => openFolder(run, options, onEnded), {
    ...run.rules,
    ...options,
    wait: true,
  });
}

/** Lets a run that was stopped go on, and follows it. */
export async function resumeRemoteRun(url: string, name: string, options: RemoteOptions): Promise<Followed> {
  await using runs = await RemoteRuns.open(url);
  const run = await runs.use(async () => {
    const found = await runs.read(await idOf(runs, name));
    const { state } = await runs.state(found.head.id);
    if (state !== "running") {
      await runs.settle(found.head.id);
      await runs.reopen(found);
    }
    return found;
  });
  return await followRun(runs, run, (onEnded) => openFolder(run, options, onEnded), {
    ...run.rules,
    ...options,
    wait: true,
  });
}

/** Takes what there is of a run into the folder of runs. Returns its folder. Throws `store/not-found`, and as {@link RemoteRuns.open}. */
export async function bringRun(
  url: string,
  name: string,
  options: Pick<RemoteOptions, "cwd" | "output" | "onNote">,
): Promise<string> {
  await using runs = await RemoteRuns.open(url);
  return await runs.use(async () => (await bring(runs, await idOf(runs, name), options)).folder);
}

/**
 * Takes all runs of a database into the folder of runs, and afterwards, in the background, what is new, until the signal aborts. Throws as {@link RemoteRuns.open}
 * when it begins.
 */
export async function copyRuns(
  url: string,
  { signal, ...options }: Pick<RemoteOptions, "cwd" | "output" | "onNote"> & { readonly signal: AbortSignal },
): Promise<void> {
  const runs = await RemoteRuns.open(url);
  const { onNote: _, ...quiet } = options;
  /** The version of each run that had ended when it was taken. */
  const ended = new Map<string, string>();
  const copy = async (): Promise<void> => {
    for (const { id, version } of await runs.list()) {
      if (signal.aborted) return;
      if (ended.get(id) === version) continue;
      const { isWhole } = await bring(runs, id, quiet);
      if (isWhole) ended.set(id, version);
    }
  };
  await runs.use(copy);
  void (async () => {
    while (!signal.aborted) {
      await pause(copyEveryMs, signal).catch(() => undefined);
      await copy().catch((error: unknown) =>
        options.onNote?.(`the runs of ${runs.name} are not up to date: ${messageOf(error)}`),
      );
    }
    await runs[Symbol.asyncDispose]();
  })();
}

const copyEveryMs = 2000;

/** Takes a run into its folder. `isWhole`: no trial of it goes on, so that nothing more will come unless it is resumed. */
async function bring(
  runs: RemoteRuns,
  id: string,
  options: Pick<RemoteOptions, "cwd" | "output" | "onNote">,
): Promise<{ readonly folder: string; readonly isWhole: boolean }> {
  const place = join(runsFolder(options), id);
  // A run that was stopped may have gone on since.
  if (await hasFile(place, "result.json")) {
    const { interrupted, budget } = await openRun(runsFolder(options), id);
    if (interrupted !== true && budget?.usedUp === undefined) return { folder: place, isWhole: true };
  }
  const run = await runs.read(id);
  try {
    const followed = await followRun(runs, run, (onEnded) => openFolder(run, options, onEnded), {
      ...run.rules,
      wait: false,
    });
    if (followed.open !== undefined)
      options.onNote?.(
        `the run still goes on: ${followed.open} of ${run.plan.trials.length} trials have not ended, which are shown as interrupted`,
      );
    return { folder: followed.folder, isWhole: followed.open === undefined };
  } catch (error) {
    // Another process follows it into this folder.
    if (error instanceof McpvalsError && error.code === "store/in-use")
      return { folder: place, isWhole: false };
    throw error;
  }
}

/** The id of a run, given as such, as its unambiguous start, or as `latest`. Throws `store/not-found`. */
async function idOf(runs: RemoteRuns, name: string): Promise<string> {
  const ids = (await runs.list()).map(({ id }) => id);
  const [only, ...others] = name === "latest" ? ids.slice(-1) : ids.filter((id) => id.startsWith(name));
  if (only !== undefined && (others.length === 0 || name === only)) return only;
  const newest = ids.slice(-5).toReversed();
  throw new McpvalsError("store/not-found", `no single run matches "${name}" in ${runs.name}`, {
    hint:
      newest.length === 0 ? "There are no runs there yet." : `There are, newest first: ${newest.join(", ")}`,
  });
}

function runsFolder({ cwd, output }: Pick<RemoteOptions, "cwd" | "output">): string {
  return resolve(cwd, output ?? defaultRunsFolder);
}

/** The folder of a run on this machine: what it has of the run stays. */
async function openFolder(
  { head, plan }: SubmittedRun,
  { cwd, output }: Pick<RemoteOptions, "cwd" | "output">,
  onEnded: (result: TrialResult, trajectory: Trajectory) => void,
): Promise<RunFolder> {
  const runs = resolve(cwd, output ?? defaultRunsFolder);
  if (!(await hasFile(join(runs, head.id), "plan.json"))) {
    if (output === undefined) refusePlanted(cwd);
    return createRunFolder(runs, head, plan);
  }
  const { folder } = await resumeRun(await openRun(runs, await findRun(runs, head.id)), onEnded);
  return folder;
}
