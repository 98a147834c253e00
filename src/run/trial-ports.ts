import type { AgentDriver } from "../agents/driver.ts";
import type { Limits, Task } from "../core/formats/model.ts";
import type { Trial } from "../core/plan/plan.ts";
import type { Expander } from "../core/templates/expand.ts";
import type { Emit, TraceEvent } from "../core/trace/events.ts";
import type { PreparedExtensions } from "../extensions/prepared-extensions.ts";
import type { ClientSide } from "../servers/session.ts";
import type { TrialServer } from "../servers/trial-server.ts";
import type { StateMemory } from "./state-comparison.ts";
import type { TaskVariables } from "./trial-world.ts";
import type { StepJudge, ValidateSchema } from "../steps/step-runner.ts";

export interface ServerStart {
  readonly emit: Emit;
  readonly signal: AbortSignal;
  /** Replaces templates in how the server is started. */
  readonly expander?: Expander;
  /** To be called with everything that the server's process is started with. */
  readonly releasePorts: (texts: Iterable<string>) => Promise<void>;
  /** What the server can ask of the agent; absent: nothing. */
  readonly clientSide?: ClientSide;
}

/** A task as one trial runs it. */
export type TaskOfTrial = Pick<TrialRun, "trial" | "task">;

/** What a trial needs of the outside world. */
export interface TrialPorts {
  readonly limits: Limits;
  /** Variables that tasks from files of their own may see. */
  readonly variables: TaskVariables;
  /** Whether paths of a task may leave its folder. */
  readonly allowOutside: boolean;
  /** Whether a task that lacks what it requires is an error; else it is skipped. */
  readonly strict: boolean;
  /** Present: the state after cleanup is compared with that before setup, of which this knows more. */
  readonly compareState: StateMemory | undefined;
  /** What the trial's task requires and is not there; told before the run. */
  missing(run: TaskOfTrial): readonly string[];
  /**
   * Starts a server of the trial's, or takes the one that is there. Undefined, with the reason on record, when it does
   * not start and the trial can do without it. Throws as `startServer` of src/servers.
   */
  startServer(run: TaskOfTrial, name: string, start: ServerStart): Promise<TrialServer | undefined>;
  /** The address of a task's server, before templates are replaced; undefined when it has none. */
  readonly urlOf: (run: TaskOfTrial, name: string) => string | undefined;
  createAgent(name: string): Promise<AgentDriver>;
  /** The judge for steps; undefined when none is configured. */
  createJudge(emit: Emit): StepJudge | undefined;
  readonly validateSchema: ValidateSchema;
  /** Those that the run's tasks use. */
  readonly extensions: PreparedExtensions;
}

export interface TrialRun {
  readonly trial: Trial;
  readonly task: Task;
  readonly emit: Emit;
  /** The trial's events so far, in order, without secrets. */
  readonly events: readonly TraceEvent[];
  /** Aborts when the run is interrupted, with an McpvalsError as its reason. */
  readonly signal: AbortSignal;
}
