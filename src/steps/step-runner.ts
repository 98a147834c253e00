import type { Step } from "../core/formats/model.ts";
import type { Check, Emit } from "../core/trace/events.ts";
import type { ServerSession } from "../servers/session.ts";

/** What a step may use. */
export interface StepContext {
  readonly sessions: readonly ServerSession[];
  readonly emit: Emit;
  /** Aborts on the trial's deadline, on interruption and when a server is lost. */
  readonly signal: AbortSignal;
}

/** How one attempt of a step went: the checks it made, or the time that ran out. */
export type StepAttempt =
  | { readonly kind: "checked"; readonly checks: readonly Check[]; readonly healthy: boolean }
  | { readonly kind: "timeout"; readonly message: string };

/** One type of step. A step that cannot act at all throws McpvalsError. */
export interface StepRunner<S extends Step = Step> {
  readonly type: S["type"];
  run(step: S, context: StepContext): Promise<StepAttempt>;
}
