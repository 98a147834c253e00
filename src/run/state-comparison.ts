import { basename } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { taskFolderName } from "../core/report/proof.ts";
import type { Json, Task } from "../core/formats/model.ts";
import { type Step, walkSteps } from "../core/formats/step.ts";
import { runStep } from "../steps/running/run-step.ts";
import type { StepContext } from "../steps/step-runner.ts";
import { type Found, type KnownFiles, readSourceFolder, readWorkspace, type State } from "./folder-state.ts";
import { runPhase } from "./run-phase.ts";
import type { TrialPorts, TrialRun } from "./trial-ports.ts";
import type { Workspace } from "./workspace.ts";

/** What the trials of several runs know of the state before them. */
export interface StateMemory {
  /**
   * What earlier trials left changed, by task and variant: what each such thing was before, undefined when it was not
   * there. A later trial finds it changed already, and must not take that for the state that it has to restore.
   */
  readonly changes: Map<string, ReadonlyMap<string, Found | undefined>>;
  readonly known: KnownFiles;
  /**
   * Present when trials run beside each other: their tasks' folders before the first trial, by absolute path, since what a
   * trial finds there itself may be another one's work.
   */
  readonly folders?: Map<string, State>;
  /** Absolute path of a folder that is not looked at, since the run itself writes there. */
  readonly except?: string;
}

/**
 * Looks at the folders of tasks, where the memory is to have them; to be called before any trial. Never rejects: a folder
 * that cannot be read is not remembered, and its trial says so.
 */
export async function rememberFolders(
  memory: StateMemory | undefined,
  tasks: readonly Task[],
): Promise<void> {
  if (memory?.folders === undefined) return;
  for (const dir of new Set(tasks.flatMap(({ portable }) => portable?.dir ?? []))) {
    const state = await readTaskFolder(dir, memory).catch(() => undefined);
    if (state !== undefined) memory.folders.set(dir, state);
  }
}

function readTaskFolder(dir: string, { known, except }: StateMemory): Promise<State> {
  return readSourceFolder(dir, taskFolderName, { known, except: except === undefined ? [] : [except] });
}

/**
 * Tells whether a task leaves everything as it was: its workspace, its own folder, and what the steps say that its
 * `stateProbe` names. What changed during an earlier trial of it has to be as it was before that one; where it is not, and this
 * trial did not touch it, it may be the work of others. Does nothing unless the run asks for it.
 */
export class StateComparison {
  readonly #workspace: Workspace;
  readonly #run: TrialRun;
  readonly #memory: StateMemory | undefined;
  /** What this trial found. */
  #found: State | undefined;

  constructor(workspace: Workspace, run: TrialRun, { compareState }: TrialPorts) {
    this.#workspace = workspace;
    this.#run = run;
    this.#memory = compareState;
  }

  /** To be called before setup. */
  async remember(context: StepContext): Promise<void> {
    if (this.#memory === undefined) return;
    this.#found = await this.#look(context, this.#memory, this.#folderBefore(this.#memory));
  }

  /** To be called after cleanup; leaves the event `state.compared`. */
  async compare(context: StepContext): Promise<void> {
    const [found, memory] = [this.#found, this.#memory];
    if (found === undefined || memory === undefined) return;
    const earlier = memory.changes.get(this.#name) ?? new Map<string, Found | undefined>();
    const was = (name: string): Found | undefined =>
      earlier.has(name) ? earlier.get(name) : found.get(name);
    const after = await this.#look(context, memory, this.#folder(memory));
    const names = new Set([...found.keys(), ...earlier.keys(), ...after.keys()]);
    const changed = [...names].filter((name) => was(name)?.what !== after.get(name)?.what);
    memory.changes.set(this.#name, new Map(changed.map((name) => [name, was(name)])));
    const isOwn = (name: string): boolean =>
      !earlier.has(name) ||
      after.get(name)?.stamp === undefined ||
      after.get(name)?.stamp !== found.get(name)?.stamp ||
      (was(name) === undefined && this.#names(basename(name)));
    const told = (own: boolean): string[] =>
      changed
        .filter((name) => isOwn(name) === own)
        .map((name) => difference(name, was(name)?.what, after.get(name)?.what));
    this.#run.emit({ type: "state.compared", differences: told(true), untouched: told(false) });
  }

  /** Whether a task's steps speak of a file. */
  #names(file: string): boolean {
    return JSON.stringify([this.#run.task.portable, this.#run.task.verify]).includes(file);
  }

  get #name(): string {
    const { task, variant = "" } = this.#run.trial;
    return JSON.stringify([task, variant]);
  }

  async #folderBefore(memory: StateMemory): Promise<State> {
    const { folders } = memory;
    return folders?.get(this.#run.task.portable?.dir ?? "") ?? (await this.#folder(memory));
  }

  async #folder(memory: StateMemory): Promise<State> {
    const dir = this.#run.task.portable?.dir;
    return dir === undefined ? new Map() : readTaskFolder(dir, memory);
  }

  async #look(context: StepContext, { known }: StateMemory, folder: Promise<State>): Promise<State> {
    const states = await Promise.all([readWorkspace(this.#workspace.path, "workspace", known), folder]);
    const state = new Map(states.flatMap((each) => [...each]));
    await runPhase("probe", this.#run.emit, () => this.#probe(context, state));
    return state;
  }

  async #probe(context: StepContext, state: Map<string, Found>): Promise<void> {
    const { task } = this.#run;
    const { stateProbe = [], setup = [], cleanup = [] } = task.portable ?? {};
    const steps = new Map(
      [...walkSteps([...setup, ...task.verify, ...cleanup])].map((step) => [step.id, step]),
    );
    for (const name of stateProbe) {
      const [id = "", output] = name.split(".");
      const step: Step | undefined = steps.get(id);
      if (step === undefined) continue;
      const { outcome, outputs = {}, error } = await runStep(step, context);
      if (error !== undefined) throw error;
      // What is told by nothing but whether it holds, such as that something exists, has no outputs.
      if (output === undefined) state.set(`step ${id}`, { what: outcome });
      else if (outcome === "passed" && !Object.hasOwn(outputs, output)) throw withoutOutput(name, step);
      for (const [key, value] of Object.entries(outputs)) {
        if (output === undefined || output === key) state.set(`${id}.${key}`, { what: written(value) });
      }
    }
  }
}

function withoutOutput(name: string, { id }: Step): McpvalsError {
  const message = `stateProbe names ${name}, and the step ${id} has passed without giving that`;
  return new McpvalsError("task/template", message);
}

function written(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function difference(name: string, was: string | undefined, is: string | undefined): string {
  if (was === undefined) return `${name} was not there before: ${is}`;
  return is === undefined ? `${name} is gone: it was ${was}` : `${name} was ${was} and is ${is}`;
}
