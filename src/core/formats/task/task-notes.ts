import type { KeyPath } from "../json.ts";
import { asObject } from "../lenient.ts";
import type { Locate } from "../problem.ts";
import type { StepView } from "./view-steps.ts";
import type { TaskView } from "./view-task.ts";
import { walkViews } from "./walk-views.ts";

/** A note that has a place in the file. */
export interface PlacedNote {
  readonly message: string;
  readonly path: KeyPath;
  /** The text inside the value that the note is about. */
  readonly text?: string;
}

/** Writes notes with their lines, in the order of the file, each once. */
export function placeNotes(notes: readonly PlacedNote[], locate: Locate): string[] {
  const placed = notes.map(({ message, ...place }) => ({
    message,
    line: locate({ ...place, at: "value" })?.line,
  }));
  const written = placed
    .toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0))
    .map(({ message, line }) => (line === undefined ? message : `line ${line}: ${message}`));
  return [...new Set(written)];
}

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
