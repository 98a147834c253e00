import { createHash } from "node:crypto";
import { createReadStream, type Dirent } from "node:fs";
import { readdir, readlink, stat } from "node:fs/promises";
import { join } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import type { Json, Task } from "../core/formats/model.ts";
import type { Step } from "../core/formats/step.ts";
import { walkSteps } from "../core/formats/walk-steps.ts";
import { orAbsent } from "../steps/files/or-absent.ts";
import { runStep } from "../steps/running/run-step.ts";
import type { StepContext } from "../steps/step-runner.ts";
import { runPhase } from "./run-phase.ts";
import type { TrialPorts, TrialRun } from "./trial-ports.ts";
import type { Workspace } from "./workspace.ts";

type State = ReadonlyMap<string, string>;

/** What the trials of several runs know of the state before them. */
export interface StateMemory {
  /**
   * What earlier trials left changed, by task and variant: what each such thing was before, undefined when it was not
   * there. A later trial finds it changed already, and must not take that for the state that it has to restore.
   */
  readonly changes: Map<string, ReadonlyMap<string, string | undefined>>;
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

async function readTaskFolder(dir: string, memory: StateMemory | undefined): Promise<State> {
  const state = new Map<string, string>();
  await readFolder(dir, { name: "task folder", state, except: memory?.except });
  return state;
}

/**
 * Tells whether a task leaves everything as it was: its workspace, its own folder, and what the steps say that its
 * `stateProbe` names. What an earlier trial of it changed has to be as it was before that one. Does nothing unless the run
 * asks for it.
 */
export class StateComparison {
  readonly #workspace: Workspace;
  readonly #run: TrialRun;
  readonly #memory: StateMemory | undefined;
  #before: State | undefined;

  constructor(workspace: Workspace, run: TrialRun, { compareState }: TrialPorts) {
    this.#workspace = workspace;
    this.#run = run;
    this.#memory = compareState;
  }

  /** To be called before setup. */
  async remember(context: StepContext): Promise<void> {
    if (this.#memory === undefined) return;
    const before = new Map(await this.#look(context, this.#folderBefore(this.#memory)));
    for (const [name, was] of this.#memory.changes.get(this.#name) ?? []) {
      if (was === undefined) before.delete(name);
      else before.set(name, was);
    }
    this.#before = before;
  }

  /** To be called after cleanup; leaves the event `state.compared`. */
  async compare(context: StepContext): Promise<void> {
    const before = this.#before;
    if (before === undefined) return;
    const after = await this.#look(context, this.#folder());
    const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
      (name) => before.get(name) !== after.get(name),
    );
    this.#memory?.changes.set(this.#name, new Map(changed.map((name) => [name, before.get(name)])));
    const differences = changed.map((name) => difference(name, before.get(name), after.get(name)));
    this.#run.emit({ type: "state.compared", differences });
  }

  get #name(): string {
    const { task, variant = "" } = this.#run.trial;
    return JSON.stringify([task, variant]);
  }

  async #folderBefore({ folders }: StateMemory): Promise<State> {
    return folders?.get(this.#run.task.portable?.dir ?? "") ?? (await this.#folder());
  }

  async #folder(): Promise<State> {
    const dir = this.#run.task.portable?.dir;
    return dir === undefined ? new Map() : readTaskFolder(dir, this.#memory);
  }

  async #look(context: StepContext, folder: Promise<State>): Promise<State> {
    const state = new Map<string, string>();
    const [theirs] = await Promise.all([
      folder,
      readFolder(this.#workspace.path, { name: "workspace", state }),
    ]);
    for (const [name, is] of theirs) state.set(name, is);
    await runPhase("probe", this.#run.emit, () => this.#probe(context, state));
    return state;
  }

  async #probe(context: StepContext, state: Map<string, string>): Promise<void> {
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
      if (output === undefined) state.set(`step ${id}`, outcome);
      else if (outcome === "passed" && !Object.hasOwn(outputs, output)) throw withoutOutput(name, step);
      for (const [key, value] of Object.entries(outputs)) {
        if (output === undefined || output === key) state.set(`${id}.${key}`, written(value));
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

interface Folder {
  readonly name: string;
  readonly state: Map<string, string>;
  readonly except?: string | undefined;
}

/** What is gone before it was looked at is not there. */
async function readFolder(folder: string, { name, state, except }: Folder): Promise<void> {
  for (const entry of (await orAbsent(readdir(folder, { withFileTypes: true }))) ?? []) {
    const path = join(folder, entry.name);
    if (path === except) continue;
    const shown = `${name}/${entry.name}`;
    if (entry.isDirectory()) {
      state.set(shown, "a folder");
      await readFolder(path, { name: shown, state, except });
      continue;
    }
    const what = await orAbsent(describe(path, entry));
    if (what !== undefined) state.set(shown, what);
  }
}

async function describe(path: string, entry: Dirent): Promise<string> {
  if (entry.isSymbolicLink()) return `a link to ${await readlink(path)}`;
  if (!entry.isFile()) return "neither file nor folder";
  const { mode } = await stat(path);
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return `a file, mode ${(mode & 0o777).toString(8)}, sha256 ${hash.digest("hex").slice(0, 12)}`;
}

function difference(name: string, was: string | undefined, is: string | undefined): string {
  if (was === undefined) return `${name} was not there before: ${is}`;
  return is === undefined ? `${name} is gone: it was ${was}` : `${name} was ${was} and is ${is}`;
}
