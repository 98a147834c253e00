import { McpvalsError, serializeError } from "../core/errors/error.ts";
import type { TrialOutcome } from "../core/trace/events.ts";
import { runPhase } from "./run-phase.ts";
import { runConfigTask } from "./run-config-task.ts";
import { runPortableTask } from "./run-portable-task.ts";
import { SkippedTrial } from "./skipped-trial.ts";
import type { TrialPorts, TrialRun } from "./trial-ports.ts";
import { TrialServers } from "./trial-servers.ts";

/**
 * Executes one trial through its phases; whatever happens, its cleanup is run and everything that it started is stopped.
 * Nothing is thrown and no verdict is taken: how it went is in the events, the last of which is `trial.finished`.
 */
export async function executeTrial(run: TrialRun, ports: TrialPorts): Promise<void> {
  const { trial, task, emit } = run;
  const started = performance.now();
  emit({ type: "trial.started", task: trial.task, agent: trial.agent, attempt: trial.attempt });
  const servers = new TrialServers(run, ports);
  let failure: { readonly error: unknown } | undefined;
  try {
    await (task.portable === undefined
      ? runConfigTask(run, ports, servers)
      : runPortableTask(run, ports, { servers, portable: task.portable }));
  } catch (error) {
    failure = { error };
  }
  try {
    await runPhase("stop", emit, () => servers.stop());
  } catch (error) {
    failure ??= { error };
  }
  emit({
    type: "trial.finished",
    durationMs: performance.now() - started,
    ...(failure === undefined
      ? { outcome: "completed" }
      : { outcome: outcomeOf(failure.error), error: serializeError(failure.error) }),
  });
}

function outcomeOf(error: unknown): TrialOutcome {
  if (error instanceof SkippedTrial) return "skipped";
  if (!(error instanceof McpvalsError)) return "error";
  if (error.kind === "timeout") return "timeout";
  return error.kind === "interrupted" ? "interrupted" : "error";
}
