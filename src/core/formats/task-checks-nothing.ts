import { assertionKinds } from "./assertion-kinds.ts";
import type { Task } from "./model.ts";

/** Whether a task from a file of its own has nothing that could fail: no verify step, and no assertion that says anything. */
export function taskChecksNothing(task: Task): boolean {
  if (task.form !== "task" || task.verify.length > 0) return false;
  return (task.portable?.assertions ?? []).every((set) => assertionKinds(set).length === 0);
}
