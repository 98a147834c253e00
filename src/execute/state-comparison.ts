import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, readlink, stat } from "node:fs/promises";
import { join } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import type { Json } from "../core/formats/model.ts";
import type { Step } from "../core/formats/step.ts";
import { walkSteps } from "../core/formats/walk-steps.ts";
import { runStep } from "../steps/running/run-step.ts";
import type { StepContext } from "../steps/step-runner.ts";
import { runPhase } from "./run-phase.ts";
import type { TrialPorts, TrialRun } from "./trial-ports.ts";
import type { Workspace } from "./workspace.ts";

type State = ReadonlyMap<string, string>;

/**
 * Tells whether a task leaves everything as it was: its workspace, its own folder, and what the steps say that its
 * `stateProbe` names. Does nothing unless the run asks for it.
 */
export class StateComparison {
  readonly #workspace: Workspace;
  readonly #run: TrialRun;
  readonly #wanted: boolean;
  #before: State | undefined;

  constructor(workspace: Workspace, run: TrialRun, { compareState }: TrialPorts) {
    this.#workspace = workspace;
    this.#run = run;
    this.#wanted = compareState;
  }

  /** To be called before setup. */
  async remember(context: StepContext): Promise<void> {
    if (this.#wanted) this.#before = await this.#look(context);
  }

  /** To be called after cleanup; leaves the event `state.compared`. */
  async compare(context: StepContext): Promise<void> {
    if (this.#before === undefined) return;
    const differences = differencesOf(this.#before, await this.#look(context));
    this.#run.emit({ type: "state.compared", differences });
  }

  async #look(context: StepContext): Promise<State> {
    const state = new Map<string, string>();
    await readFolder(this.#workspace.path, "workspace", state);
    const dir = this.#run.task.portable?.dir;
    if (dir !== undefined) await readFolder(dir, "task folder", state);
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

async function readFolder(folder: string, name: string, state: Map<string, string>): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    const shown = `${name}/${entry.name}`;
    if (entry.isDirectory()) {
      state.set(shown, "a folder");
      await readFolder(path, shown, state);
    } else if (entry.isSymbolicLink()) state.set(shown, `a link to ${await readlink(path)}`);
    else if (entry.isFile()) state.set(shown, await digest(path));
    else state.set(shown, "neither file nor folder");
  }
}

async function digest(path: string): Promise<string> {
  const { mode } = await stat(path);
  const sum = createHash("sha256");
  for await (const piece of createReadStream(path)) sum.update(piece as Buffer);
  return `a file, mode ${(mode & 0o777).toString(8)}, sha256 ${sum.digest("hex").slice(0, 12)}`;
}

function differencesOf(before: State, after: State): string[] {
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names.flatMap((name) => {
    const [was, is] = [before.get(name), after.get(name)];
    if (was === is) return [];
    if (was === undefined) return [`${name} was not there before: ${is}`];
    return is === undefined ? [`${name} is gone: it was ${was}`] : [`${name} was ${was} and is ${is}`];
  });
}
