import type { Resolve, Scope } from "../../core/templates/scope.ts";
import type { Check } from "../../core/trace/events.ts";
import type { StepContext } from "../step-runner.ts";

/** A scope that notices when a text asks for what a failed step would have given. */
export interface NoticingScope {
  readonly scope: Scope | undefined;
  /** The check that says so, once that has happened. */
  readonly needed: () => Check | undefined;
}

/**
 * Watches the outputs that a step uses. One that needs those of a failed step cannot act for the same reason for which that
 * one failed, so it is a failure too and no error.
 */
export function noticingScope({ scope, trial }: Pick<StepContext, "scope" | "trial">): NoticingScope {
  const steps = scope?.get("steps");
  if (scope === undefined || steps === undefined || trial.failed.size === 0)
    return { scope, needed: () => undefined };
  let needed: string | undefined;
  const noticing: Resolve = (names, variant) => {
    const value = steps(names, variant);
    const [id] = names;
    if (value === undefined && id !== undefined && trial.failed.has(id)) needed ??= id;
    return value;
  };
  return {
    scope: new Map([...scope, ["steps", noticing]]),
    needed: () => (needed === undefined ? undefined : neededCheck(needed)),
  };
}

function neededCheck(id: string): Check {
  return {
    name: "needs",
    passed: false,
    expected: `outputs of step ${id}`,
    actual: null,
    message: `not tried: it needs what step ${id} gives, and that failed`,
    untried: true,
  };
}
