import type { SerializedError } from "../errors/error.ts";
import type { JsonObject, SandboxSpec } from "../formats/model.ts";
import type { Grade, Verdict } from "../grade/grader.ts";
import type { AgentSummary } from "../plan/plan.ts";
import type { Usage } from "../trace/events.ts";
import type { ToolDigest } from "../trace/tool-events.ts";

/**
 * Verdict of a whole run. `incomplete`: nothing failed, but errors, timeouts or a lack of evidence could have
 * changed the verdict.
 */
export type RunVerdict = "pass" | "fail" | "incomplete" | "interrupted";

export interface TrialResult {
  readonly id: string;
  readonly task: string;
  readonly form: "workflow" | "tool-test" | "task";
  /** The suite of a tool test. */
  readonly suite?: string;
  /** Of a task from a file of its own, where it says. */
  readonly difficulty?: string;
  readonly tags?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  /** null when no agent takes part. */
  readonly agent: string | null;
  /** Name of the set of servers; absent when the eval has no variants. */
  readonly variant?: string;
  readonly attempt: number;
  readonly verdict: Verdict;
  /** Average of the scored grades, 0 to 1; null when nothing was scored. */
  readonly score: number | null;
  readonly durationMs: number;
  readonly grades: readonly Grade[];
  /** Why the trial is `error`, `timeout` or `skip`. */
  readonly error?: SerializedError;
  /** Absent when no model was asked. */
  readonly usage?: Usage;
  /** Of the model that judged; absent when none was asked. */
  readonly judgeUsage?: Usage;
  /** What really ran, where the agent is a program. */
  readonly ran?: ProgramRun;
  /** What the agent did with tools; absent when no agent took part, or when there were no servers and no tools. */
  readonly tools?: ToolDigest;
  /** Servers in whose place a mock stood; absent: none. What they answered is written, and shows nothing of the servers. */
  readonly mocks?: readonly string[];
  /** Things that deserve a look but change no verdict, such as a server that logs on stdout. */
  readonly warnings?: readonly string[];
}

/** What a program told of itself, and of the models that answered it; null: it told nothing. */
export interface ProgramRun {
  /** Names with versions. */
  readonly programs: readonly string[] | null;
  readonly models: readonly string[] | null;
}

export interface RunSummary {
  readonly total: number;
  readonly pass: number;
  readonly fail: number;
  readonly error: number;
  readonly timeout: number;
  readonly skip: number;
}

export interface RunEnvironment {
  readonly mcpvals: string;
  readonly node: string;
  readonly platform: string;
  readonly agents: readonly AgentSummary[];
  /** The model that judged; absent when none was asked to. */
  readonly judge?: { readonly model: string };
  /** How each server is started or reached and what it may do, by name, without secrets. */
  readonly servers: JsonObject;
  /** Servers that tasks declare themselves, or have otherwise than the eval, by task and name. */
  readonly taskServers?: JsonObject;
  /** Extensions that the tasks use; absent: none. */
  readonly extensions?: readonly ExtensionSummary[];
  /** The servers of each variant, by its name; of tasks only where they differ from the variant's other tasks. */
  readonly variants?: JsonObject;
}

/** An extension of a run. */
export interface ExtensionSummary {
  /** What steps name it by. */
  readonly name: string;
  /** As written. */
  readonly package: string;
  /** That was used: of the release or package, else as its `extension.yaml` says; absent when that says nothing. */
  readonly version?: string;
  /** `sha256:HEX`: of a release or package over all of its files, as the lock has it; else of its program alone. */
  readonly hash?: string;
  readonly sandbox: SandboxSpec["kind"];
}

/** The result document; its schema is published as `schemas/result.schema.json`. */
export interface RunResult {
  readonly schema: "mcpvals.result/1";
  readonly id: string;
  readonly name: string;
  readonly verdict: RunVerdict;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  readonly durationMs: number;
  readonly summary: RunSummary;
  readonly trials: readonly TrialResult[];
  readonly environment: RunEnvironment;
}
