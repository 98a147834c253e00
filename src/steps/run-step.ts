import { McpvalsError, serializeError } from "../core/errors/error.ts";
import type { JsonObject, Step } from "../core/formats/model.ts";
import type { EventOf, Phase } from "../core/trace/events.ts";
import { mcpStep } from "./mcp.ts";
import type { StepAttempt, StepContext, StepRunner } from "./step-runner.ts";

/** Every type of step, one line each. */
const runners: { readonly [T in Step["type"]]: StepRunner<Extract<Step, { type: T }>> } = {
  mcp: mcpStep,
};

/**
 * Runs a step, trying again as often as it allows; each attempt leaves its own pair of events. A step whose last
 * attempt ran out of time throws `server/call-timeout`; one that cannot act throws what stopped it.
 */
export async function runStep(step: Step, phase: Phase, context: StepContext): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    context.signal.throwIfAborted();
    const last = attempt > step.retries;
    const finished = await runAttempt(step, { phase, attempt }, context);
    const good =
      finished.kind === "checked" && finished.healthy && finished.checks.every((check) => check.passed);
    if (good || (last && finished.kind === "checked")) return;
    if (last && finished.kind === "timeout") throw new McpvalsError("server/call-timeout", finished.message);
  }
}

interface AttemptPlace {
  readonly phase: Phase;
  readonly attempt: number;
}

async function runAttempt(step: Step, place: AttemptPlace, context: StepContext): Promise<StepAttempt> {
  const started = performance.now();
  context.emit({ type: "step.started", step: step.id, stepType: step.type, input: inputOf(step), ...place });
  const finish = (rest: Pick<EventOf<"step.finished">, "outcome" | "checks" | "error">): void => {
    context.emit({
      type: "step.finished",
      step: step.id,
      ...place,
      durationMs: performance.now() - started,
      ...rest,
    });
  };
  try {
    const result = await runners[step.type].run(step, context);
    finish(attemptEvent(result));
    return result;
  } catch (error) {
    finish({ outcome: "error", checks: [], error: serializeError(error) });
    throw error;
  }
}

function attemptEvent(result: StepAttempt): Pick<EventOf<"step.finished">, "outcome" | "checks" | "error"> {
  if (result.kind === "timeout") {
    return {
      outcome: "timeout",
      checks: [],
      error: { code: "server/call-timeout", kind: "timeout", message: result.message },
    };
  }
  const passed = result.healthy && result.checks.every((check) => check.passed);
  return { outcome: passed ? "passed" : "failed", checks: result.checks };
}

function inputOf(step: Step): JsonObject {
  return { tool: step.tool, args: step.args, ...(step.server === undefined ? {} : { server: step.server }) };
}
