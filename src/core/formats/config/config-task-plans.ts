import type { Diagnostic } from "../../errors/error.ts";
import { suggestion } from "../did-you-mean.ts";
import type { KeyPath } from "../json.ts";
import type { Eval, ScriptedAgentSpec } from "../model.ts";
import { type Locate, placeProblem, type Problem } from "../problem.ts";

/**
 * What is wrong with the plans of scripted agents once the tasks from files are known: plans for nothing, and tasks that
 * have none.
 */
export function configAgentProblems(spec: Eval, locate: Locate): Diagnostic[] {
  if (spec.tasks.every((task) => task.portable === undefined)) return [];
  const scripted = spec.agents.filter((agent) => agent.type === "scripted");
  return scripted.flatMap((agent) => planProblems(agent, spec)).map((each) => placeProblem(each, locate));
}

function planProblems({ name, plan }: ScriptedAgentSpec, { tasks }: Eval): Problem[] {
  const path: KeyPath = name === "scripted" ? ["agent", "plan"] : ["agents", name, "plan"];
  const played = tasks.filter((task) => task.turns.length > 0);
  const names = played.map((task) => task.name);
  const unknown = Object.keys(plan)
    .filter((key) => !names.includes(key))
    .map((key): Problem => ({
      code: "config/unknown-reference",
      message: `no workflow or task is named ${JSON.stringify(key)}`,
      path: [...path, key],
      at: "key",
      hint: suggestion(key, names, "tasks"),
    }));
  const unplanned = played
    .filter((task) => task.portable !== undefined && !Object.hasOwn(plan, task.name))
    .map((task): Problem => ({
      code: "agent/no-plan",
      message: `the scripted agent "${name}" has no plan for the task ${JSON.stringify(task.name)}`,
      path,
      at: "key",
      hint: "Add a plan under that task's name, or choose another agent, such as oracle.",
    }));
  return [...unknown, ...unplanned];
}
