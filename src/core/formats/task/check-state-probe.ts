import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, type KeyPath } from "../json.ts";
import { asList } from "../lenient.ts";
import type { Problem } from "../problem.ts";
import { declaredOutputs } from "./check-templates.ts";
import type { TaskView } from "./view-task.ts";
import type { StepView } from "./view-steps.ts";

/** Checks that what `metadata.stateProbe` names is there: steps, and outputs of theirs. */
export function checkStateProbe(view: TaskView, steps: readonly StepView[]): Problem[] {
  const byId = new Map(
    steps.flatMap((step): [string, StepView][] => (step.ownId === undefined ? [] : [[step.ownId, step]])),
  );
  return asList(view.metadata["stateProbe"]).flatMap((probe, index) => {
    if (typeof probe !== "string" || probe.trim() === "") return [];
    const path = ["metadata", "stateProbe", index];
    const [id = "", ...output] = probe.split(".");
    const step = byId.get(id);
    if (step !== undefined) return outputProblems(step, output.join("."), path);
    // A step that could not be read may have that id.
    if (view.problems.length > 0) return [];
    return [
      refer(path, `no step has the id ${JSON.stringify(id)}`, suggestion(id, [...byId.keys()], "step ids")),
    ];
  });
}

function outputProblems(step: StepView, output: string, path: KeyPath): Problem[] {
  const declared = declaredOutputs(step);
  if (declared === "any") return [];
  if (declared.length === 0) return [refer(path, `the step ${step.id} has no outputs`)];
  if (output === "" || declared.includes(output)) return [];
  const message = `the step ${step.id} has no output ${JSON.stringify(output)}`;
  return [refer(path, message, suggestion(output, declared, "outputs"))];
}

function refer(path: KeyPath, what: string, hint?: string): Problem {
  return {
    code: "config/unknown-reference",
    message: `${formatKeyPath(path)}: ${what}`,
    path,
    at: "value",
    ...(hint === undefined ? {} : { hint }),
  };
}
