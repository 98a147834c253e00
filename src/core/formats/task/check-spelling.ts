import { taskRoots } from "../../templates/scope.ts";
import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, type KeyPath } from "../key-path.ts";
import type { Problem } from "../problem.ts";
import { staticText } from "./check-text.ts";
import { type NearTemplate, nearTemplates } from "./near-templates.ts";
import type { PlacedNote } from "./task-notes.ts";
import type { Locals } from "./template-names.ts";

/** Notes on what in a text is no template, but was most likely meant to be one. */
export function spellingNotes(text: string, path: KeyPath, locals: Locals): PlacedNote[] {
  return nearTemplates(text, locals)
    .filter(({ isWhole, meant }) => !isWhole || meant !== undefined)
    .map((near) => ({
      message: `${formatKeyPath(path)}: ${near.text} is taken as text: ${near.why}${question(near)}`,
      path,
      text: near.text,
    }));
}

function question({ meant }: NearTemplate): string {
  return meant === undefined ? "" : `; did you mean ${meant}?`;
}

export interface OutputScope {
  /** Every root that is not one of all tasks. */
  readonly locals: Locals;
  /** Those of them that only this output may use. */
  readonly values: Locals;
}

/** Checks the text of an output, in which a word in braces can only be meant as a template. */
export function checkOutput(
  text: string,
  path: KeyPath,
  { locals, values }: OutputScope,
): { readonly problems: readonly Problem[]; readonly notes: readonly PlacedNote[] } {
  const near = nearTemplates(text, locals);
  if (near.length > 0) return { problems: near.map((each) => refused(each, path, values)), notes: [] };
  if (staticText(text, locals) === undefined) return { problems: [], notes: [] };
  const message = `${formatKeyPath(path)} has no template, so that it is always the same text`;
  return { problems: [], notes: [{ message, path }] };
}

function refused(near: NearTemplate, path: KeyPath, values: Locals): Problem {
  const { text, root, isWhole, why, meant } = near;
  const names = [...values].flatMap(([name, has]) => (has([]) || has(["x"]) ? [name] : []));
  const what = isWhole ? "refers to nothing" : `is no template: ${why}`;
  const known = suggestion(root, [...names, ...taskRoots], "names");
  const hint = isWhole
    ? known
    : meant === undefined
      ? "Write {NAME}, or {{ for a literal brace."
      : `Did you mean ${meant}?`;
  return {
    code: "config/unknown-reference",
    message: `${formatKeyPath(path)}: ${text} ${what}`,
    path,
    at: "value",
    text,
    hint,
  };
}
