import type { ServerOverlay, ServerTable } from "../config/server-tables.ts";
import type { KeyPath } from "../json.ts";
import type { ServerLifetime } from "../model.ts";
import type { PlacedAssertions } from "./read-graders.ts";
import type { ParsedWazaEval } from "./waza-schema.ts";

/** An `eval.yaml` of waza that is valid by itself. */
export interface WazaEval {
  readonly name?: string;
  readonly trials: number;
  /** Longest that a trial may take. */
  readonly timeoutMs?: number;
  /** Trials at once; absent: one after the other. */
  readonly concurrency?: number;
  /** Globs and paths of task files, from the eval's folder. */
  readonly tasks: readonly string[];
  /** What its graders assert of every task. */
  readonly assertions: readonly PlacedAssertions[];
  /** Names of its graders. */
  readonly graderNames: ReadonlySet<string>;
  readonly servers: ServerTable;
  /** Absent when there are none. */
  readonly variants?: readonly WazaVariant[];
  /** Lifetime of servers that have none of their own; absent: `per_run`. */
  readonly lifetime?: ServerLifetime;
  readonly agents: WazaAgents;
}

export interface WazaVariant {
  readonly name: string;
  readonly path: KeyPath;
  /** Absent: the servers stay as they are. */
  readonly overlay?: ServerOverlay;
}

/** Who plays. `copilot`: the agent that `executor: copilot-sdk` means. */
export type WazaAgents =
  | {
      readonly kind: "declared";
      readonly agent: ParsedWazaEval["agent"];
      readonly agents: ParsedWazaEval["agents"];
    }
  | { readonly kind: "copilot"; readonly model?: string }
  /** Whoever was asked for. */
  | { readonly kind: "requested" };
