import { asObject } from "../lenient.ts";
import type { StepView } from "./view-steps.ts";
import type { TaskView } from "./view-task.ts";
import { walkViews } from "./walk-views.ts";

/** What is valid but does not do what its author may think: one sentence each. */
export function taskNotes(view: TaskView): string[] {
  const { setup, verify, cleanup } = view.steps;
  const used = new Set([...walkViews([...setup, ...verify, ...cleanup])].map(extensionOf));
  const unused = view.imports.filter((alias) => !used.has(alias));
  const stopping = cleanup.filter(({ body }) => asObject(body)["continueOnError"] === false);
  return [
    ...unused.map((alias) => `the import ${JSON.stringify(alias)} is not used`),
    ...stopping.map(({ id }) => `${id}: continueOnError: false has no effect; all of cleanup always runs`),
  ];
}

function extensionOf({ kind, first, body }: StepView): unknown {
  return kind === "extension" ? asObject(body)["package"] : first;
}
