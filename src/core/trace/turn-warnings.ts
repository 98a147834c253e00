import type { TraceEvent, TurnEnd } from "./events.ts";

/** What was odd about how a model ended the user's turns: cut off, refused, or without a word. */
export function turnWarnings(events: readonly TraceEvent[]): string[] {
  const warnings: string[] = [];
  let calls = 0;
  let finish = "";
  let spoke = false;
  for (const event of events) {
    if (event.type === "turn.started") calls = 0;
    if (event.type === "agent.message") spoke = true;
    if (event.type === "model.called" && event.purpose === "agent") {
      calls += 1;
      finish = event.finishReason;
      spoke = false;
    }
    if (event.type !== "turn.finished") continue;
    const oddity = calls === 0 ? programEnd(event.reason) : modelEnd(event.reason, { calls, finish, spoke });
    if (oddity !== undefined) warnings.push(`turn ${event.turn + 1}: ${oddity}`);
  }
  return warnings;
}

/** How a program says that a turn ended. */
function programEnd(reason: TurnEnd): string | undefined {
  switch (reason) {
    case "done":
      return undefined;
    case "max-steps":
      return "the agent had no model calls left";
    case "max-tokens":
      return "the agent's model reached its output limit";
    case "refused":
      return "the agent refused to go on";
    case "cancelled":
      return "the turn was cancelled";
  }
}

function modelEnd(
  reason: TurnEnd,
  { calls, finish, spoke }: { readonly calls: number; readonly finish: string; readonly spoke: boolean },
): string | undefined {
  return reason === "max-steps" ? cutOff(calls) : oddEnd(finish, spoke);
}

function cutOff(calls: number): string {
  return `the model still wanted to call tools after ${calls === 1 ? "a model call" : `${calls} model calls`}, the most that maxSteps allows`;
}

function oddEnd(finish: string, spoke: boolean): string | undefined {
  if (finish === "length") return "the model's last answer was cut off at its output limit";
  if (finish === "content-filter") return "the model or its provider refused to answer";
  return spoke ? undefined : "the model's last answer was empty";
}
