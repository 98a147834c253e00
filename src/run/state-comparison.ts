import { createHash } from "node:crypto";
import { type BigIntStats, createReadStream } from "node:fs";
import { lstat, readdir, readlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { McpvalsError, messageOf } from "../base/error.ts";
import type { Task } from "../model/task.ts";
import { walkSteps } from "../model/step.ts";
import { taskFolderName } from "../report/proof.ts";
import type { Emit } from "../model/event.ts";
import { ignoredByGit } from "../process/folders.ts";
import { runPhase, type StepContext } from "../steps/step-runner.ts";
import { runStep } from "../steps/run-step.ts";
import { orAbsent } from "../steps/task-path.ts";
import type { TaskOfTrial } from "./provisioning.ts";

/** One thing of a state: a file, a folder, an output of a step. */
interface Entry {
  /** Its content, as text that can be compared and shown. */
  readonly what: string;
  /** Of a file or folder: changes with every write, even of the same content. */
  readonly stamp?: string;
}

/** Entries by the name that messages use. */
type State = ReadonlyMap<string, Entry>;

/** Files by absolute path, so that unchanged large files are not read for every trial. */
type KnownFiles = Map<string, Entry>;

/** Shared by the trials of several runs. */
export interface StateMemory {
  /**
   * Changes that earlier trials left, by task and variant: the entries before, undefined for new ones. A later trial must restore
   * the state before the first trial.
   */
  readonly changes: Map<string, ReadonlyMap<string, Entry | undefined>>;
  readonly known: KnownFiles;
  /**
   * Present when trials run concurrently: the tasks' folders before the first trial, by absolute path, since another
   * trial may have changed them by the time one starts.
   */
  readonly folders?: Map<string, State>;
  /** Absolute path of a folder that is left out, since the run itself writes there. */
  readonly except?: string;
}

/**
 * Reads the folders of tasks into `memory.folders`, if present; to be called before any trial. Never rejects: a folder that cannot be
 * read is left out, and its trial reports that.
 */
export async function rememberFolders(memory: StateMemory, tasks: readonly Task[]): Promise<void> {
  if (memory.folders === undefined) return;
  for (const dir of new Set(tasks.flatMap(({ portable }) => portable?.dir ?? []))) {
    const state = await readTaskFolder(dir, memory).catch(() => undefined);
    if (state !== undefined) memory.folders.set(dir, state);
  }
}

interface ComparedTrial extends TaskOfTrial {
  readonly emit: Emit;
}

/**
 * Reports whether a task restores the state: its own folder, and the outputs of the steps that its `stateProbe` names. Its workspace
 * does not count. Changes of an earlier trial of the task must be restored too; those that this trial did not touch are reported
 * separately.
 */
export class StateComparison {
  readonly #run: ComparedTrial;
  readonly #memory: StateMemory;
  /** The state before setup. */
  #before: State | undefined;

  constructor(run: ComparedTrial, memory: StateMemory) {
    this.#run = run;
    this.#memory = memory;
  }

  /** Called before setup. */
  async remember(context: StepContext): Promise<void> {
    const { dir = "" } = this.#run.task.portable ?? {};
    this.#before = await this.#read(context, this.#memory.folders?.get(dir));
  }

  /** Called after cleanup; emits `state.compared`. */
  async compare(context: StepContext): Promise<void> {
    const before = this.#before;
    if (before === undefined) return;
    const { trial, task, emit } = this.#run;
    const { changes } = this.#memory;
    const key = JSON.stringify([trial.task, trial.variant ?? ""]);
    const earlier = changes.get(key) ?? new Map<string, Entry | undefined>();
    const was = (name: string): Entry | undefined =>
      earlier.has(name) ? earlier.get(name) : before.get(name);
    const after = await this.#read(context);
    const names = new Set([...before.keys(), ...earlier.keys(), ...after.keys()]);
    const changed = [...names].filter((name) => was(name)?.what !== after.get(name)?.what);
    changes.set(key, new Map(changed.map((name) => [name, was(name)])));
    const steps = JSON.stringify([task.portable, task.verify]);
    const isOwn = (name: string): boolean =>
      !earlier.has(name) ||
      after.get(name)?.stamp === undefined ||
      after.get(name)?.stamp !== before.get(name)?.stamp ||
      (was(name) === undefined && steps.includes(basename(name)));
    const own = Map.groupBy(changed, isOwn);
    const describeAll = (list: readonly string[] = []): string[] =>
      list.map((name) => describeChange(name, was(name)?.what, after.get(name)?.what));
    const [differences, untouched] = [describeAll(own.get(true)), describeAll(own.get(false))];
    emit({ type: "state.compared", differences, untouched });
  }

  async #read(context: StepContext, folder?: State): Promise<State> {
    const { portable } = this.#run.task;
    const found =
      folder ?? (portable === undefined ? undefined : await readTaskFolder(portable.dir, this.#memory));
    const state = new Map(found);
    await runPhase("probe", this.#run.emit, () => this.#probe(context, state));
    return state;
  }

  async #probe(context: StepContext, state: Map<string, Entry>): Promise<void> {
    const { verify, portable } = this.#run.task;
    const { stateProbe = [], setup = [], cleanup = [] } = portable ?? {};
    const steps = [...walkSteps([...setup, ...verify, ...cleanup])];
    for (const name of stateProbe) {
      const [id = "", output] = name.split(".");
      const step = steps.findLast((each) => each.id === id);
      if (step === undefined) continue;
      const { outcome, outputs = {}, error } = await runStep(step, context);
      if (error !== undefined) throw error;
      // A step without outputs, such as one that checks that a file exists, is compared by its outcome.
      if (output === undefined) state.set(`step ${id}`, { what: outcome });
      else if (outcome === "passed" && !Object.hasOwn(outputs, output)) {
        const message = `stateProbe names ${name}, but step ${id} passed without that output`;
        throw new McpvalsError("task/template", message);
      }
      for (const [key, value] of Object.entries(outputs)) {
        const what = typeof value === "string" ? value : JSON.stringify(value);
        if (output === undefined || output === key) state.set(`${id}.${key}`, { what });
      }
    }
  }
}

function describeChange(name: string, was: string | undefined, is: string | undefined): string {
  if (was === undefined) return `${name} was not there before: ${is}`;
  return is === undefined ? `${name} is gone: it was ${was}` : `${name} was ${was} and is ${is}`;
}

interface ReadOptions {
  readonly known: KnownFiles;
  /** Absolute paths that are left out. */
  readonly ignored?: ReadonlySet<string>;
  /** Base names that are left out in every folder. */
  readonly skipped?: readonly string[];
}

/**
 * The files and folders of a task's folder, without those that git ignores, `.git` and `node_modules`; empty for a missing folder.
 * Rejects with McpvalsError `task/workspace` if something cannot be read.
 */
export async function readTaskFolder(
  dir: string,
  { known, except }: Pick<StateMemory, "known" | "except">,
): Promise<State> {
  const ignored = new Set([...(except === undefined ? [] : [except]), ...(await ignoredByGit(dir))]);
  return readAll(dir, taskFolderName, { known, ignored, skipped: [".git", "node_modules"] });
}

async function readAll(path: string, name: string, options: ReadOptions): Promise<State> {
  const state = new Map<string, Entry>();
  try {
    await readFolder(path, name, options, state);
  } catch (cause) {
    const reason = messageOf(cause);
    throw new McpvalsError("task/workspace", `cannot read all of ${name}: ${reason}`, { cause });
  }
  return state;
}

/** Leaves out files that are removed meanwhile. */
async function readFolder(
  folder: string,
  name: string,
  options: ReadOptions,
  state: Map<string, Entry>,
): Promise<void> {
  const { known, ignored, skipped } = options;
  for (const entry of (await orAbsent(readdir(folder))) ?? []) {
    const path = join(folder, entry);
    if (ignored?.has(path) || skipped?.includes(entry)) continue;
    const entryName = `${name}/${entry}`;
    const stats = await orAbsent(lstat(path, { bigint: true }));
    const found = stats && (await orAbsent(describeEntry(path, stats, known)));
    if (found === undefined) continue;
    state.set(entryName, found);
    if (stats?.isDirectory()) await readFolder(path, entryName, options, state);
  }
}

async function describeEntry(path: string, stats: BigIntStats, known: KnownFiles): Promise<Entry> {
  const stamp = `${stats.ino} ${stats.ctimeNs} ${stats.size}`;
  if (stats.isDirectory()) return { what: "a folder", stamp };
  if (stats.isSymbolicLink()) return { what: `a link to ${await readlink(path)}`, stamp };
  if (!stats.isFile()) return { what: "neither file nor folder" };
  const earlier = known.get(path);
  if (earlier?.stamp === stamp) return earlier;
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  const mode = (Number(stats.mode) & 0o777).toString(8);
  const found = { what: `a file, mode ${mode}, sha256 ${hash.digest("hex").slice(0, 12)}`, stamp };
  // Two writes in a row can have the same time on a file system with a coarse clock.
  if (BigInt(Date.now()) * 1_000_000n - stats.ctimeNs > 1_000_000_000n) known.set(path, found);
  return found;
}
