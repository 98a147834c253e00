import type { Task } from "../model.ts";
import { walkSteps } from "../walk-steps.ts";

/** A step that needs an extension. */
export interface ExtensionUse {
  /** The step's id. */
  readonly step: string;
  /** `EXTENSION.OPERATION`. */
  readonly text: string;
}

/** The steps of a task, those inside others included, that are operations of extensions. */
export function extensionUses(task: Task): readonly ExtensionUse[] {
  const { setup = [], cleanup = [] } = task.portable ?? {};
  return [setup, task.verify, cleanup]
    .flatMap((steps) => [...walkSteps(steps)])
    .flatMap((step) =>
      step.type === "extension" ? [{ step: step.id, text: `${step.extension}.${step.operation}` }] : [],
    );
}
