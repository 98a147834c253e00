import { randomInt } from "node:crypto";
import type { JsonObject, PortableTask, Task } from "../core/formats/model.ts";
import { expanderOf } from "../core/templates/expand.ts";
import { envRoot } from "../core/templates/resolve-env.ts";
import { type Resolve, resolveIn, resolveNames, type Scope } from "../core/templates/scope.ts";
import { callHistory } from "../core/trace/call-history.ts";
import type { Emit, TraceEvent } from "../core/trace/events.ts";
import { inheritedEnvironment, mergeEnvironments } from "../process/environment.ts";
import type { TrialExtensions } from "../extensions/host/open-trial-extensions.ts";
import type { PreparedExtensions } from "../extensions/prepared-extensions.ts";
import type { StepJudge, TrialContext, ValidateSchema } from "../steps/step-runner.ts";
import { LazyExtensions } from "./lazy-extensions.ts";
import { RandomPorts } from "./random-ports.ts";

type Variables = Readonly<Record<string, string>>;

/** Variables that the tasks of a run may see. */
export interface TaskVariables {
  /** From the command line. */
  readonly overrides: Variables;
  /** Of the shell that mcpvals was started from. */
  readonly shell: Variables;
}

export interface TrialStateOptions {
  readonly variables: TaskVariables;
  readonly allowOutside: boolean;
  readonly judge: StepJudge | undefined;
  readonly validateSchema: ValidateSchema;
  /** Those of the run, of which the task's are started when a step needs them. */
  readonly extensions: PreparedExtensions;
  readonly emit: Emit;
  /** The trial's events so far. */
  readonly events: readonly TraceEvent[];
  /** Addresses of the task's servers that have one, by name. */
  readonly urls: () => Variables;
}

/** What one trial of a task has of its own: folder, variables, random values, outputs of its steps. */
export class TrialState implements TrialContext, AsyncDisposable {
  readonly task: string;
  readonly dir: string;
  readonly repository: string | undefined;
  readonly workspace: string;
  readonly allowOutside: boolean;
  readonly judge: StepJudge | undefined;
  readonly validateSchema: ValidateSchema;
  readonly extensions: TrialExtensions;
  readonly outputs = new Map<string, JsonObject>();
  readonly failed = new Set<string>();
  readonly scope: Scope;
  prompt = "";
  agent: TrialContext["agent"];
  readonly #portable: PortableTask;
  readonly #options: TrialStateOptions;
  readonly #ids = new Map<string, string>();
  readonly #ports = new RandomPorts();
  readonly #processes: { stop(): Promise<unknown> }[] = [];
  #env: Variables | undefined;
  #declared: Variables | undefined;

  constructor(task: Task, workspace: string, options: TrialStateOptions) {
    if (task.portable === undefined) throw new Error(`${task.name} is not a task from a file of its own`);
    this.task = task.name;
    this.dir = task.portable.dir;
    this.repository = task.portable.repository;
    this.workspace = workspace;
    this.allowOutside = options.allowOutside;
    this.judge = options.judge;
    this.validateSchema = options.validateSchema;
    this.#portable = task.portable;
    this.#options = options;
    this.scope = this.#createScope(this.outputs);
    this.extensions = this.#openExtensions();
  }

  /** Reserves the ports that the task's templates name. */
  async prepare(): Promise<void> {
    await this.#ports.reserve(this.#portable.randomPorts);
  }

  /** Made when it is first asked for, since its templates may fail. Throws `task/template`. */
  get env(): Variables {
    this.#env ??= this.#createEnv();
    return this.#env;
  }

  /** As `env`, made when it is first asked for. */
  get declared(): Variables {
    this.#declared ??= mergeEnvironments([this.#declaredValues(), this.#options.variables.overrides]);
    return this.#declared;
  }

  /** Outputs of the task's solution, which begin with those so far, and what its templates refer to; no step sees them. */
  forSolution(): { readonly outputs: Map<string, JsonObject>; readonly scope: Scope } {
    const outputs = new Map(this.outputs);
    return { outputs, scope: this.#createScope(outputs) };
  }

  history(): ReturnType<typeof callHistory> {
    return callHistory(this.#options.events);
  }

  releasePorts(texts: Iterable<string>): Promise<void> {
    return this.#ports.releaseIn(texts);
  }

  adopt(process: { stop(): Promise<unknown> }): void {
    this.#processes.push(process);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.extensions[Symbol.asyncDispose]();
    } finally {
      await Promise.all(this.#processes.map((process) => process.stop()));
      await this.#ports[Symbol.asyncDispose]();
    }
  }

  #createScope(given: ReadonlyMap<string, JsonObject>): Scope {
    const roots: readonly (readonly [string, Resolve])[] = [
      ["random", (names, variant) => this.#random(names, variant)],
      ["task", resolveNames({ name: this.task })],
      ["workspace", resolveIn(this.workspace)],
      ["steps", (names, variant) => outputOf(given, names, variant)],
      ["agent", (names, variant) => this.#agent(names, variant)],
      ["servers", (names, variant) => this.#server(names, variant)],
    ];
    const { overrides, shell } = this.#options.variables;
    const env = envRoot({ overrides, declared: this.#portable.env, shell }, new Map(roots));
    return new Map([...roots, ["env", env]]);
  }

  #openExtensions(): TrialExtensions {
    const { extensions: prepared, emit, variables } = this.#options;
    return new LazyExtensions({
      specs: this.#portable.extensions ?? {},
      prepared,
      trial: this,
      expander: expanderOf(this.scope),
      env: variables.shell,
      given: variables.overrides,
      emit,
    });
  }

  /** The variables that the task declares, with their values. */
  #declaredValues(): Variables {
    const read = this.scope.get("env");
    const own = Object.keys(this.#portable.env).flatMap((name) => {
      const value = read?.([name], undefined);
      return typeof value === "string" ? [[name, value] as const] : [];
    });
    return Object.fromEntries(own);
  }

  #createEnv(): Variables {
    const { overrides, shell } = this.#options.variables;
    const inherited = inheritedEnvironment(shell, this.#portable.inheritEnv);
    return mergeEnvironments([inherited, this.#declaredValues(), overrides]);
  }

  #random([kind, ...rest]: readonly string[], name = ""): string | undefined {
    if (rest.length > 0) return undefined;
    if (kind === "port") return this.#ports.portOf(name)?.toString();
    if (kind !== "id") return undefined;
    const id = this.#ids.get(name) ?? randomId();
    this.#ids.set(name, id);
    return id;
  }

  #agent(names: readonly string[], variant: string | undefined): ReturnType<Resolve> {
    if (this.agent === undefined) return names[0] === "prompt" ? this.prompt : undefined;
    return resolveNames({ output: this.agent.output, prompt: this.prompt })(names, variant);
  }

  #server([name, url, ...rest]: readonly string[], variant: string | undefined): string | undefined {
    if (name === undefined || url !== "url" || rest.length > 0 || variant !== undefined) return undefined;
    const urls = this.#options.urls();
    return Object.hasOwn(urls, name) ? urls[name] : undefined;
  }
}

function outputOf(
  given: ReadonlyMap<string, JsonObject>,
  [id, outputs, ...names]: readonly string[],
  variant: string | undefined,
): ReturnType<Resolve> {
  const found = id === undefined ? undefined : given.get(id);
  return found === undefined || outputs !== "outputs" ? undefined : resolveIn(found)(names, variant);
}

const letters = "abcdefghijklmnopqrstuvwxyz0123456789";

/** Eight letters and digits, the first a letter, so that it can be a name nearly everywhere. */
function randomId(): string {
  const rest = Array.from({ length: 7 }, () => letters.charAt(randomInt(letters.length)));
  return letters.charAt(randomInt(26)) + rest.join("");
}
