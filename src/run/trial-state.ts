import { randomInt } from "node:crypto";
import { once } from "node:events";
import { cp, lstat, readlink, realpath } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import type { AgentDriver, TaskSolution } from "../agents/driver.ts";
import type { AskUserModel } from "../agents/simulated-user.ts";
import type { PlanRecord } from "../check/plan-check.ts";
import type { ValidateSchema } from "../expect/tool-result.ts";
import { McpvalsError, messageOf } from "../base/error.ts";
import type { JsonObject } from "../base/json.ts";
import type { Limits } from "../model/eval.ts";
import type { PortableTask } from "../model/task.ts";
import { envRoot, expanderOf } from "../templates/expand.ts";
import { type Resolve, resolveIn, resolveNames, type Scope } from "../templates/template.ts";
import type { Emit, EventBody, TraceEvent } from "../model/event.ts";
import { callHistory } from "../trace/agent-acts.ts";
import type { PreparedExtensions } from "../extensions/host/extension-process.ts";
import type { TrialExtensions } from "../extensions/host/trial-extensions.ts";
import { inheritedEnvironment, mergeEnvironments } from "../process/environment.ts";
import { Clocks, type Hold } from "../process/deadline.ts";
import { copyFileUntil, makeTemporaryFolder, removeFolder } from "../process/folders.ts";
import type { StepJudge, TrialContext } from "../steps/step-runner.ts";
import type { Provisioning, TaskOfTrial } from "./provisioning.ts";
import type { StateMemory } from "./state-comparison.ts";

type Variables = Readonly<Record<string, string>>;

/** One execution of a task. */
export interface TrialRun extends TaskOfTrial {
  readonly emit: Emit;
  /** The trial's events so far, in order, without secrets. */
  readonly events: readonly TraceEvent[];
  /** Aborts when the run is interrupted, with an McpvalsError as its reason. */
  readonly signal: AbortSignal;
  /** Called with each value that this trial alone has, and its name; gives the value that it has in its place. Absent: each stays. */
  readonly ownValue?: ((name: string, value: string) => string) | undefined;
  /** Called when its servers have stopped: what there is to record of trials without an attack. Rejects when the trial is aborted. Absent: nothing. */
  readonly compareAttack?: (() => Promise<EventBody | undefined>) | undefined;
}

/** What a run provides for its trials. */
export interface TrialServices extends Pick<Provisioning, "startServer" | "specOf"> {
  readonly limits: Limits;
  /** Variables that task files may use: from the command line, and of the shell that started mcpvals. */
  readonly variables: { readonly overrides: Variables; readonly shell: Variables };
  /** Whether paths of a task may leave its folder. */
  readonly allowOutside: boolean;
  /** Whether unmet requirements of a task are an error; otherwise its trials are skipped. */
  readonly strict: boolean;
  /** Whether servers are asked for their resources and prompts too. */
  readonly listAll: boolean;
  /** Present: the state after cleanup is compared with the state before setup. */
  readonly compareState: StateMemory | undefined;
  /** Probes that planning has recorded, by task. */
  readonly records?: ReadonlyMap<string, PlanRecord> | undefined;
  /** The requirements of the trial's task that are not met, as phrases. */
  missing(of: TaskOfTrial): readonly string[];
  /** The error of a judge that has no key, by the names of the tasks that would ask it. */
  readonly judgesWithoutKey: ReadonlyMap<string, McpvalsError>;
  createAgent(name: string): Promise<AgentDriver>;
  /** Asks the model that plays simulated users; undefined when no task has one that it plays. */
  readonly askUserModel?: AskUserModel | undefined;
  /** Makes the judge for steps; undefined when none is configured. */
  readonly createJudge: ((emit: Emit, hold: Hold) => StepJudge) | undefined;
  readonly validateSchema: ValidateSchema;
  /** The extensions of the run's tasks. */
  readonly extensions: PreparedExtensions;
}

/** The state of one trial: folder, variables, random values, outputs of its steps, processes of its steps. */
export class TrialState implements TrialContext, AsyncDisposable {
  readonly task: string;
  readonly dir: string;
  readonly repository: string | undefined;
  readonly workspace: string;
  readonly allowOutside: boolean;
  readonly judge: StepJudge | undefined;
  readonly validateSchema: ValidateSchema;
  readonly clocks = new Clocks();
  readonly outputs = new Map<string, JsonObject>();
  readonly failed = new Set<string>();
  /** What templates refer to; undefined for workflows and tool tests, whose texts have none. */
  readonly scope: Scope | undefined;
  prompt = "";
  agent: TrialContext["agent"];
  readonly #run: TrialRun;
  readonly #services: TrialServices;
  readonly #ids = new Map<string, string>();
  readonly #ports = new Map<string, number>();
  /** Reserved TCP ports on loopback, until a process that uses them starts. */
  readonly #heldPorts = new Map<number, Server>();
  readonly #processes: { stop(): Promise<unknown> }[] = [];
  #env: Variables | undefined;
  #declared: Variables | undefined;
  #extensions: Promise<TrialExtensions> | undefined;

  constructor(run: TrialRun, services: TrialServices, workspace: string) {
    const { name, portable } = run.task;
    this.task = name;
    this.dir = portable?.dir ?? "";
    this.repository = portable?.repository;
    this.workspace = workspace;
    this.allowOutside = services.allowOutside;
    this.judge = services.createJudge?.(run.emit, this.clocks.hold.bind(this.clocks));
    this.validateSchema = services.validateSchema;
    this.#run = run;
    this.#services = services;
    this.scope = portable === undefined ? undefined : this.#createScope(this.outputs);
  }

  /** Reserves the ports that the task's templates name. Rejects when the system has none. */
  async reservePorts(): Promise<void> {
    for (const name of this.#run.task.portable?.randomPorts ?? []) {
      // Connections are closed at once: nothing answers here, and an open connection would delay closing the server.
      const server = createServer((socket) => socket.destroy());
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const address = server.address();
      if (address === null || typeof address === "string") throw new Error("a TCP socket has no port");
      this.#heldPorts.set(address.port, server);
      this.#ports.set(name, address.port);
      this.#run.ownValue?.(`port ${name}`, String(address.port));
    }
  }

  async releasePorts(texts: Iterable<string>): Promise<void> {
    if (this.#heldPorts.size === 0) return;
    const all = [...texts];
    await this.#closePorts((port) => all.some((text) => text.includes(String(port))));
  }

  async #closePorts(isWanted: (port: number) => boolean): Promise<void> {
    const wanted = [...this.#heldPorts].filter(([port]) => isWanted(port));
    await Promise.all(
      wanted.map(async ([port, server]) => {
        this.#heldPorts.delete(port);
        server.close();
        await once(server, "close");
      }),
    );
  }

  /** Computed on first use, since templates may fail. Throws `task/template`. */
  get env(): Variables {
    const { shell } = this.#services.variables;
    const inherited = inheritedEnvironment(shell, this.#run.task.portable?.inheritEnv ?? []);
    this.#env ??= mergeEnvironments([inherited, this.declared]);
    return this.#env;
  }

  /** Computed on first use, as `env`. */
  get declared(): Variables {
    if (this.#declared !== undefined) return this.#declared;
    const read = this.scope?.get("env");
    const own = Object.keys(this.#run.task.portable?.env ?? {}).flatMap((name) => {
      const value = read?.([name], undefined);
      return typeof value === "string" ? [[name, value] as const] : [];
    });
    this.#declared = mergeEnvironments([Object.fromEntries(own), this.#services.variables.overrides]);
    return this.#declared;
  }

  /** The task's solution, with its own copy of the outputs so far: steps do not see those that it adds. */
  solution(): TaskSolution | undefined {
    const { solution: actions } = this.#run.task.portable ?? {};
    if (actions === undefined) return undefined;
    const outputs = new Map(this.outputs);
    return { actions, outputs, scope: this.#createScope(outputs) };
  }

  history(): ReturnType<typeof callHistory> {
    return callHistory(this.#run.events);
  }

  adopt(process: { stop(): Promise<unknown> }): void {
    this.#processes.push(process);
  }

  /** The extension host is loaded with the first operation, since most trials have none. */
  readonly extensions: TrialContext["extensions"] = {
    execute: async (call, signal) => {
      this.#extensions ??= this.#openExtensions();
      return (await this.#extensions).execute(call, signal);
    },
  };

  async #openExtensions(): Promise<TrialExtensions> {
    const { extensions: prepared, variables } = this.#services;
    const { openTrialExtensions } = await import("../extensions/host/trial-extensions.ts");
    return openTrialExtensions({
      specs: this.#run.task.portable?.extensions ?? {},
      prepared,
      trial: this,
      expander: expanderOf(this.scope),
      env: variables.shell,
      given: variables.overrides,
      emit: this.#run.emit,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await (await this.#extensions)?.[Symbol.asyncDispose]();
    } finally {
      await Promise.all(this.#processes.map((process) => process.stop()));
      await this.#closePorts(() => true);
    }
  }

  #createScope(outputs: ReadonlyMap<string, JsonObject>): Scope {
    const roots: readonly (readonly [string, Resolve])[] = [
      ["random", ([kind, ...rest], name = "") => (rest.length > 0 ? undefined : this.#random(kind, name))],
      ["task", resolveNames({ name: this.task })],
      ["workspace", resolveIn(this.workspace)],
      [
        "steps",
        ([id = "", key, ...names], variant) => {
          const found = outputs.get(id);
          return found === undefined || key !== "outputs" ? undefined : resolveIn(found)(names, variant);
        },
      ],
      [
        "agent",
        (names, variant) => {
          if (this.agent === undefined) return names[0] === "prompt" ? this.prompt : undefined;
          return resolveNames({ output: this.agent.output, prompt: this.prompt })(names, variant);
        },
      ],
      [
        "servers",
        ([name = "", key, ...rest], variant) =>
          key === "url" && rest.length === 0 && variant === undefined ? this.#urlOf(name) : undefined,
      ],
    ];
    const { overrides, shell } = this.#services.variables;
    const declared = this.#run.task.portable?.env ?? {};
    return new Map([...roots, ["env", envRoot({ overrides, declared, shell }, new Map(roots))]]);
  }

  #random(kind: string | undefined, name: string): string | undefined {
    if (kind === "port") return this.#ports.get(name)?.toString();
    if (kind !== "id") return undefined;
    const known = this.#ids.get(name);
    if (known !== undefined) return known;
    const made = randomId();
    const id = this.#run.ownValue?.(`id ${name}`, made) ?? made;
    this.#ids.set(name, id);
    return id;
  }

  #urlOf(server: string): string | undefined {
    if (!this.#run.task.servers.includes(server)) return undefined;
    const spec = this.#services.specOf(this.#run, server);
    return "url" in spec ? expanderOf(this.scope).text(spec.url) : undefined;
  }
}

const letters = "abcdefghijklmnopqrstuvwxyz0123456789";

/** Eight letters and digits, beginning with a letter, which is a valid name nearly everywhere. */
function randomId(): string {
  const rest = Array.from({ length: 7 }, () => letters.charAt(randomInt(letters.length)));
  return letters.charAt(randomInt(26)) + rest.join("");
}

/** A trial's own folder. */
export interface Workspace {
  /** Absolute path, without links. */
  readonly path: string;
  /** Names of the fixtures in it. */
  readonly fixtures: readonly string[];
  /** Removes it with everything in it. Throws McpvalsError `task/workspace`. */
  readonly remove: () => Promise<void>;
}

/**
 * Creates a folder and copies the task's fixtures into it, under their base names; those of waza keep their folders. Throws
 * McpvalsError `task/workspace`, `task/outside` for a link in a fixture that leads out of it, unless `allowOutside`, and the signal's reason.
 */
export async function createWorkspace(
  task: Pick<PortableTask, "fixtures" | "dir" | "format"> | undefined,
  allowOutside: boolean,
  signal: AbortSignal,
): Promise<Workspace> {
  const { fixtures = [], dir = "", format } = task ?? {};
  const path = await failingAs("cannot be created", () => makeTemporaryFolder("work"));
  const remove = (): Promise<void> => failingAs("cannot be removed", () => removeFolder(path));
  const nameOf = (fixture: string): string => (format === "waza" ? fixture : basename(fixture));
  try {
    for (const fixture of fixtures)
      await copy(resolve(dir, fixture), join(path, nameOf(fixture)), { allowOutside, signal });
  } catch (error) {
    await remove();
    throw error;
  }
  return { path, fixtures: fixtures.map(nameOf), remove };
}

/** Size from which on copying a file can take so long that it has to be interrupted. */
const largeFile = 16 * 1024 * 1024;

interface CopyOptions {
  readonly allowOutside: boolean;
  readonly signal: AbortSignal;
}

async function copy(fixture: string, to: string, { allowOutside, signal }: CopyOptions): Promise<void> {
  await failingAs(`lacks its fixture ${fixture}`, async () => {
    const from = await realpath(fixture);
    const filter = async (source: string, target: string): Promise<boolean> => {
      signal.throwIfAborted();
      const found = await lstat(source);
      if (found.isSymbolicLink() && !allowOutside) await refuseLeavingLink(source, from);
      if (!found.isFile() || found.size < largeFile) return true;
      await copyFileUntil(source, target, signal);
      return false;
    };
    await cp(from, to, { recursive: true, errorOnExist: true, force: false, verbatimSymlinks: true, filter });
  }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw error;
  });
}

/** Such a link would lead elsewhere in the workspace, or let a trial change the task's own files. */
async function refuseLeavingLink(path: string, fixture: string): Promise<void> {
  const target = await readlink(path);
  const way = relative(fixture, resolve(dirname(path), target));
  if (!isAbsolute(target) && !isAbsolute(way) && way !== ".." && !way.startsWith(`..${sep}`)) return;
  const message = `the link ${path} leads to ${target}, out of the fixture ${fixture}`;
  const hint = "Copy the target into the fixture, or allow the link with --allow-outside.";
  throw new McpvalsError("task/outside", message, { hint });
}

async function failingAs<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof McpvalsError) throw cause;
    const reason = messageOf(cause);
    throw new McpvalsError("task/workspace", `the workspace ${what}: ${reason}`, { cause });
  }
}
