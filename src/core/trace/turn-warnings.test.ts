import { expect, it } from "vitest";
import type { EventBody, TraceEvent } from "./events.ts";
import { turnWarnings } from "./turn-warnings.ts";

const started: EventBody = { type: "turn.started", turn: 0, user: "Do it." };
const said: EventBody = { type: "agent.message", turn: 0, text: "Done." };
const done: EventBody = { type: "turn.finished", turn: 0, reason: "done" };
const cut: EventBody = { type: "turn.finished", turn: 0, reason: "max-steps" };

function asked(finishReason: string, purpose: "agent" | "judge" = "agent"): EventBody {
  const usage = { inputTokens: 1, outputTokens: 1, requests: 1 };
  return { type: "model.called", purpose, model: "m", durationMs: 1, finishReason, usage };
}

it.each<[string, EventBody[], string[]]>([
  ["a turn that ends with words", [started, asked("tool-calls"), asked("stop"), said, done], []],
  ["a turn without a model", [started, done], []],
  ["the judge's answer", [started, asked("stop"), said, done, asked("length", "judge")], []],
  [
    "too many calls",
    [started, asked("tool-calls"), said, asked("tool-calls"), cut],
    ["turn 1: the model still wanted to call tools after 2 model calls, the most that maxSteps allows"],
  ],
  [
    "a cut-off answer",
    [started, asked("length"), said, done],
    ["turn 1: the model's last answer was cut off at its output limit"],
  ],
  [
    "a refusal",
    [started, asked("content-filter"), said, done],
    ["turn 1: the model or its provider refused to answer"],
  ],
  [
    "an empty answer after words",
    [started, asked("tool-calls"), said, asked("stop"), done],
    ["turn 1: the model's last answer was empty"],
  ],
  [
    "the second turn only",
    [started, asked("stop"), said, done, { ...started, turn: 1 }, asked("tool-calls"), { ...cut, turn: 1 }],
    ["turn 2: the model still wanted to call tools after a model call, the most that maxSteps allows"],
  ],
])("of %s", (_, bodies, warnings) => {
  const events = bodies.map((body, index): TraceEvent => ({ seq: index + 1, at: 0, trial: "t1", ...body }));
  expect(turnWarnings(events)).toEqual(warnings);
});
