import { formatKeyPath, type KeyPath } from "../json.ts";
import { asList, asObject } from "../lenient.ts";
import type { Locate } from "../problem.ts";
import type { PlacedNote } from "./task-notes.ts";
import type { TaskView } from "./view-task.ts";
import { walkViews } from "./walk-views.ts";

/**
 * Notes on arguments of tools that are null and not written so, as far as `locate` can tell: YAML makes one of `name` in
 * `{ query: SELECT id, name }`.
 */
export function nullNotes({ steps, spec }: TaskView, locate: Locate): PlacedNote[] {
  const calls = [...walkViews([...steps.setup, ...steps.verify, ...steps.cleanup])].filter(
    ({ kind }) => kind === "mcp" || kind === "call",
  );
  const notes = [
    ...calls.flatMap(({ body, bodyPath }) => inArgs(body, bodyPath)),
    ...inActions(spec["solution"], ["spec", "solution"]),
  ];
  return notes.filter(({ path }) => !isWritten(path, locate));
}

/** A null that nobody wrote has no place but that of its key. */
function isWritten(path: KeyPath, locate: Locate): boolean {
  const [key, value] = [locate({ path, at: "key" }), locate({ path, at: "value" })];
  return key?.line !== value?.line || key?.column !== value?.column;
}

function inActions(list: unknown, path: KeyPath): PlacedNote[] {
  return asList(list).flatMap((action, index) =>
    Object.entries(asObject(action)).flatMap(([key, body]) => {
      const at = [...path, index, key];
      return key === "foreach" ? inActions(asObject(body)["steps"], [...at, "steps"]) : inArgs(body, at);
    }),
  );
}

function inArgs(body: unknown, path: KeyPath): PlacedNote[] {
  return nullsIn(asObject(body)["args"], [...path, "args"]);
}

function nullsIn(value: unknown, path: KeyPath): PlacedNote[] {
  if (Array.isArray(value)) return value.flatMap((item: unknown, index) => nullsIn(item, [...path, index]));
  return Object.entries(asObject(value)).flatMap(([key, member]) => {
    const at = [...path, key];
    return member === null ? [noteAt(at)] : nullsIn(member, at);
  });
}

function noteAt(path: KeyPath): PlacedNote {
  const message = `${formatKeyPath(path)} is null: a text with a comma, or with braces, has to be in quotes`;
  return { message, path };
}
