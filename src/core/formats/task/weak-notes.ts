import { type KeyPath, valueAt } from "../key-path.ts";
import { asList, asObject, asText } from "../lenient.ts";
import {
  echoedArguments,
  inexactNumbers,
  looseSchemas,
  shortTexts,
  strayKeys,
} from "../weak-expectations.ts";
import type { PlacedNote } from "./task-notes.ts";
import type { TaskView } from "./view-task.ts";
import { walkViews } from "./walk-views.ts";

/** Notes on expectations of verify steps that say less than their author may think. */
export function weakNotes({ steps }: TaskView): PlacedNote[] {
  return [...walkViews(steps.verify)].flatMap(({ kind, body, bodyPath }): PlacedNote[] => {
    const expected = valueAt(body, ["expect"]);
    const at = [...bodyPath, "expect"];
    const texts = [[], ["stdout"], ["stderr"], ["body"], ["text"]].flatMap((keys) => {
      const contains = valueAt(expected, [...keys, "contains"]);
      const path = [...at, ...keys, "contains"];
      return Array.isArray(contains)
        ? asList(contains).flatMap((text, index) => shortTexts(text, [...path, index]))
        : shortTexts(contains, path);
    });
    const args = valueAt(body, ["args"]);
    const isCall = kind === "mcp" || kind === "call";
    return [
      ...texts,
      ...(isCall ? echoes(body, bodyPath) : []),
      ...(isCall ? strayKeys(args, ["expect"], [...bodyPath, "args"]) : []),
      ...(isCall ? looseSchemas(valueAt(body, ["expect", "schema"]), [...at, "schema"]) : []),
      ...inexactNumbers(args, [...bodyPath, "args"]),
      ...inexactNumbers(expected, at),
    ];
  });
}

/** Of the texts that a call is to give. */
function echoes(body: unknown, bodyPath: KeyPath): PlacedNote[] {
  const tool = asText(valueAt(body, ["tool"])) ?? String(bodyPath.at(-1));
  const path = [...bodyPath, "expect", "text"];
  const text = valueAt(body, ["expect", "text"]);
  const { equals, contains } = asObject(text);
  const expected = typeof text === "string" ? text : [equals, contains];
  return echoedArguments(expected, { tool, args: valueAt(body, ["args"]) }, path);
}
