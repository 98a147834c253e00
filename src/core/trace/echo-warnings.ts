import { searchableText } from "../checks/result-text.ts";
import { statesText } from "../formats/contains-text.ts";
import type { Step } from "../formats/step.ts";
import { walkSteps } from "../formats/walk-steps.ts";
import { stepPaths } from "./step-path.ts";
import { lastAnswered } from "./last-answered.ts";
import type { Trajectory } from "./trajectory.ts";

type Seen = Pick<Trajectory, "task" | "turns" | "steps" | "events">;

/**
 * Checks that hold and that an agent would pass which only repeats what it was told: the expected text stands in a user's
 * turn, and nothing but the agent's own words has it.
 */
export function echoWarnings(seen: Seen): string[] {
  return [...echoedStates(seen), ...echoedSteps(seen)];
}

const longestShown = 80;

function echoedStates({ task, turns }: Seen): string[] {
  return turns.flatMap((turn) => {
    const state = task.turns[turn.turn]?.expectedState;
    const message = turn.messages.at(-1);
    if (state === undefined || message === undefined || !statesText(message.text, state)) return [];
    const result = lastAnswered(turn)?.result;
    if (result !== undefined && statesText(searchableText(result), state)) return [];
    const told = turns.some((earlier) => earlier.turn <= turn.turn && statesText(earlier.user, state));
    return told
      ? [
          `turn ${turn.turn + 1}: expectedState ${shown(state)} stands in what the user says, and no tool result has it: an agent that repeats the user would pass`,
        ]
      : [];
  });
}

function echoedSteps({ task, turns, steps, events }: Seen): string[] {
  const looking = [...walkSteps(task.verify)].filter(looksAtAgent).map(({ id }) => id);
  if (looking.length === 0) return [];
  const pathOf = stepPaths(events);
  // A round of a foreach is called after it: NAME[0].
  const holders = new Set(steps.flatMap(({ parent = "" }) => [parent, parent.replace(/\[\d+\]$/, "")]));
  const found = steps.flatMap(({ step, phase, last }) => {
    const isLooking = looking.some((id) => step === id || step.endsWith(`/${id}`));
    if (phase !== "verify" || !isLooking || holders.has(step) || last?.outcome !== "passed") return [];
    return last.checks.flatMap(({ name, passed, expected }) => {
      const isText =
        passed && /(?:^|\s)(?:contains|equals|exact)$/.test(name) && typeof expected === "string";
      if (!isText || expected.trim() === "") return [];
      return turns.some(({ user }) => statesText(user, expected))
        ? [`"${pathOf(step)}" expects ${shown(expected)}`]
        : [];
    });
  });
  return [...new Set(found)]
    .slice(0, most)
    .map(
      (what) =>
        `verify step ${what} of the agent's answer, which stands in the prompt: an agent that repeats the prompt may pass`,
    );
}

/** Steps that this is told of. */
const most = 10;

/** Whether a step looks at what the agent said. */
function looksAtAgent(step: Step): boolean {
  if ("steps" in step) return false;
  if (step.type === "llm" && step.input === undefined) return true;
  return /\{\s*agent\.output\b/.test(JSON.stringify(step));
}

function shown(text: string): string {
  return JSON.stringify(text.length > longestShown ? `${text.slice(0, longestShown).toWellFormed()}…` : text);
}
