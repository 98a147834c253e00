import { expect, it } from "vitest";
import type { EventBody, TraceEvent } from "./events.ts";
import { turnWarnings } from "./warnings.ts";

const started: EventBody = { type: "turn.started", turn: 0, user: "Do it." };
const said: EventBody = { type: "agent.message", turn: 0, text: "Done." };
const done: EventBody = { type: "turn.finished", turn: 0, reason: "done" };

function asked(finishReason: string, purpose: "agent" | "judge" = "agent"): EventBody {
  const usage = { inputTokens: 1, outputTokens: 1, requests: 1 };
  return { type: "model.called", purpose, model: "m", durationMs: 1, finishReason, usage };
}

it.each<[string, EventBody[], string[]]>([
  ["a turn that ends with words", [started, asked("tool-calls"), asked("stop"), said, done], []],
  ["a turn without a model", [started, done], []],
  ["the judge's answer", [started, asked("stop"), said, done, asked("length", "judge")], []],
  [
    "an answer that ended for another reason",
    [started, asked("other"), said, done],
    ['turn 1: the model\'s last answer ended for a reason that is not known: "other"'],
  ],
  [
    "a turn that fails anyway",
    [started, asked("length"), said, { type: "turn.finished", turn: 0, reason: "max-tokens" }],
    [],
  ],
  [
    "an empty answer after words",
    [started, asked("tool-calls"), said, asked("stop"), done],
    ["turn 1: the model's last answer was empty"],
  ],
  [
    "the second turn only",
    [started, asked("stop"), said, done, { ...started, turn: 1 }, asked("stop"), { ...done, turn: 1 }],
    ["turn 2: the model's last answer was empty"],
  ],
])("of %s", (_, bodies, warnings) => {
  const events = bodies.map((body, index): TraceEvent => ({ seq: index + 1, at: 0, trial: "t1", ...body }));
  expect(turnWarnings(events)).toEqual(warnings);
});
