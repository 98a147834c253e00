import { taskRoots } from "../../templates/scope.ts";
import { suggestion } from "../did-you-mean.ts";
import { formatKeyPath, type KeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import { staticText } from "./check-text.ts";
import { type NearTemplate, nearTemplates } from "./near-templates.ts";
import type { PlacedNote } from "./task-notes.ts";
import type { Locals } from "./template-names.ts";

/** Notes on what in a text is no template, but was most likely meant to be one. */
export function spellingNotes(text: string, path: KeyPath, locals: Locals): PlacedNote[] {
  return nearTemplates(text, locals)
    .filter(({ isWhole, meant, isSlip }) => (!isWhole || meant !== undefined) && isSlip !== true)
    .map((near) => ({
      message: `${formatKeyPath(path)}: ${near.text} is taken as text: ${near.why}${question(near)}`,
      path,
      text: near.text,
    }));
}

/** What is wrong with words in braces that are names, but for one slip. */
export function slips(text: string, path: KeyPath, locals: Locals): Problem[] {
  return nearTemplates(text, locals)
    .filter(({ isSlip }) => isSlip === true)
    .map((near) => unnamed(near, path));
}

/** Whether a text has a word in braces that is no name. */
export function hasUnknown(text: string, locals: Locals): boolean {
  return nearTemplates(text, locals).some(({ isWhole }) => isWhole);
}

/** What is wrong with the other words in braces of a path, where they can only be meant as templates. */
export function unknownInPath(text: string, path: KeyPath, locals: Locals): Problem[] {
  return nearTemplates(text, locals)
    .filter(({ isWhole, isSlip }) => isWhole && isSlip !== true)
    .map((near) => unnamed(near, path));
}

function unnamed({ text, why, meant }: NearTemplate, path: KeyPath): Problem {
  const question = meant === undefined ? "" : `Did you mean ${meant}? `;
  return {
    code: "config/unknown-reference",
    message: `${formatKeyPath(path)}: ${text} is no template: ${why}`,
    path,
    at: "value",
    text,
    hint: `${question}For the text itself write {${text}}.`,
  };
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
