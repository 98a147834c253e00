import type { TraceEvent, TurnEnd } from "./events.ts";
import type { ToolCall, TurnView } from "./trajectory.ts";

/** How a user turn ended, in view of what the model said last. */
export interface EndedTurn {
  readonly turn: number;
  /** Number of the event that ended it. */
  readonly seq: number;
  readonly reason: TurnEnd;
  /** What is odd about the end; absent: the agent had finished, with words. */
  readonly oddity?: string;
}

/** The ends of all turns that have one. */
export function turnEnds(events: readonly TraceEvent[]): readonly EndedTurn[] {
  const ends: EndedTurn[] = [];
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
    const { turn, seq, reason } = event;
    const oddity = calls === 0 ? programEnd(reason) : modelEnd(reason, { calls, finish, spoke });
    ends.push({
      turn,
      seq,
      reason,
      ...(oddity === undefined ? {} : { oddity: `turn ${turn + 1}: ${oddity}` }),
    });
  }
  return ends;
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

interface LastAnswer {
  readonly calls: number;
  readonly finish: string;
  readonly spoke: boolean;
}

function modelEnd(reason: TurnEnd, { calls, finish, spoke }: LastAnswer): string | undefined {
  switch (reason) {
    case "max-steps":
      return `the model still wanted to call tools after ${calls === 1 ? "a model call" : `${calls} model calls`}, the most that maxSteps allows`;
    case "max-tokens":
      return "the model's last answer was cut off at its output limit";
    case "refused":
      return "the model or its provider refused to answer";
    case "cancelled":
      return "the turn was cancelled";
    case "done":
      break;
  }
  if (!spoke) return "the model's last answer was empty";
  return finish === "stop" || finish === "tool-calls"
    ? undefined
    : `the model's last answer ended for a reason that is not known: ${JSON.stringify(finish)}`;
}

/** The call of a turn that was answered last. Calls may overlap, so it need not be the last one asked for. */
export function lastAnswered({ calls }: TurnView): ToolCall | undefined {
  const answered = calls.filter((call) => call.result !== undefined);
  return answered.toSorted((a, b) => (a.responseSeq ?? 0) - (b.responseSeq ?? 0)).at(-1);
}
