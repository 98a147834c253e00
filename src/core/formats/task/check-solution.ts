import { isJsonObject } from "../json.ts";
import type { Json } from "../model.ts";
import { asObject } from "../lenient.ts";
import type { Problem } from "../problem.ts";
import type { TaskView } from "./view-task.ts";

/** Checks that a solution has as many turns as the prompt, and that a limit is given once. */
export function checkSolution({ spec }: TaskView): Problem[] {
  const { solution, prompt } = spec;
  if (!Array.isArray(solution)) return [];
  const path = ["spec", "solution"];
  if (prompt === undefined) {
    const message = "spec.solution is never played: without spec.prompt no agent takes part";
    return [{ code: "config/invalid-value", message, path, at: "key" }];
  }
  const asked = Array.isArray(prompt) ? prompt.length : 1;
  const played = turnsOf(solution);
  if (played === undefined || played <= asked) return [];
  const message = `spec.solution has ${played} turns, the prompt has ${asked}: each \`say\` ends a turn`;
  const hint = "Leave out a `say`, or what comes after the last one.";
  return [{ code: "config/invalid-value", message, path, at: "value", hint }];
}

/** How many turns a solution takes; undefined when a `foreach` says something, so that it cannot be told. */
function turnsOf(actions: readonly Json[]): number | undefined {
  const keys = actions.map((action) => (isJsonObject(action) ? (Object.keys(action)[0] ?? "") : ""));
  if (actions.some((action) => says(asObject(asObject(action)["foreach"])["steps"]))) return undefined;
  const ended = keys.filter((key) => key === "say").length;
  return keys.at(-1) === "say" ? ended : ended + 1;
}

function says(actions: unknown): boolean {
  if (!Array.isArray(actions)) return false;
  return actions.some((action: unknown) => {
    const { say, foreach } = asObject(action);
    return say !== undefined || says(asObject(foreach)["steps"]);
  });
}

/** The time limit of a task may stand in two places, but not in both. */
export function checkLimits({ spec, metadata }: TaskView): Problem[] {
  if (asObject(spec["limits"])["timeout"] === undefined || metadata["timeout"] === undefined) return [];
  return [
    {
      code: "config/duplicate-name",
      message: "the task's time limit is given twice: metadata.timeout and spec.limits.timeout",
      path: ["spec", "limits", "timeout"],
      at: "key",
      alsoAt: ["metadata", "timeout"],
      hint: "Remove one of them.",
    },
  ];
}
