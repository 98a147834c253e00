import type { JsonObject, PortableTask, ServerSpec, Task } from "../model.ts";
import type { Step } from "../step.ts";
import { withoutUndefined } from "../json.ts";
import type { Artifact, TaskExport } from "./task-export-schema.ts";

/** What a task is exported with. */
export interface TaskBelongings {
  /** Its own servers, as the file says them. */
  readonly servers: Readonly<Record<string, ServerSpec>>;
  readonly artifacts: readonly Artifact[];
}

/** Makes one document of a task from a file of its own. */
export function exportTask(task: Task, { servers, artifacts }: TaskBelongings): TaskExport {
  const { portable } = task;
  if (portable === undefined) throw new Error(`${task.name} is not a task from a file of its own`);
  const { timeoutMs, cleanupTimeoutMs, inheritEnv } = portable;
  const document = {
    schema: "mcpvals.task/1",
    name: task.name,
    description: task.description,
    difficulty: portable.difficulty,
    tags: portable.tags,
    labels: portable.labels,
    format: portable.format,
    prompt: task.turns.map((turn) => turn.user),
    env: portable.env,
    inheritEnv: inheritEnv,
    requires: portable.requires,
    servers,
    fixtures: portable.fixtures,
    setup: withPackages(portable.setup, portable.extensions),
    verify: withPackages(task.verify, portable.extensions),
    cleanup: withPackages(portable.cleanup, portable.extensions),
    solution: portable.solution,
    limits: withoutUndefined({ timeoutMs, cleanupTimeoutMs }),
    trials: portable.runs,
    stateProbe: portable.stateProbe,
    artifacts,
  };
  // What is undefined has no place in JSON, and the same value under two names is no matter there.
  return JSON.parse(JSON.stringify(document satisfies Record<keyof TaskExport, unknown>)) as TaskExport &
    JsonObject;
}

/** Steps of extensions with the packages that these come from, as far as the task says. */
function withPackages(
  steps: readonly Step[],
  extensions: PortableTask["extensions"] = {},
): readonly object[] {
  const inside = (list: readonly Step[]): readonly object[] => withPackages(list, extensions);
  return steps.map((step) => {
    switch (step.type) {
      case "extension":
        return { ...step, package: extensions[step.extension]?.package };
      case "group":
        return {
          ...step,
          setup: inside(step.setup),
          steps: inside(step.steps),
          cleanup: inside(step.cleanup),
        };
      case "foreach":
      case "anyOf":
      case "allOf":
      case "not":
        return { ...step, steps: inside(step.steps) };
      default:
        return step;
    }
  });
}
