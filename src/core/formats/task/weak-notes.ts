import { formatKeyPath, type KeyPath, valueAt } from "../json.ts";
import { asList, asObject, asText } from "../lenient.ts";
import {
  echoedArguments,
  inexactNumbers,
  looseSchemas,
  shortTexts,
  strayKeys,
} from "../weak-expectations.ts";
import type { PlacedNote } from "./task-notes.ts";
import type { StepView } from "./view-steps.ts";
import type { TaskView } from "./view-task.ts";
import { walkViews } from "./walk-views.ts";

/** Notes on expectations of verify steps that say less than their author may think. */
export function weakNotes({ steps }: TaskView): PlacedNote[] {
  const verify = [...walkViews(steps.verify)];
  const made = new Set([...walkViews([...steps.setup, ...verify, ...steps.cleanup])].flatMap(madeFile));
  return [
    ...verify.filter((step) => !made.has(fileOf(step))).flatMap(ownFiles),
    ...repeatedLooks(verify),
    ...verify.flatMap(weakIn),
  ];
}

function fileOf({ kind, body }: StepView): unknown {
  return kind === "file" ? asObject(body)["path"] : undefined;
}

/** The path of a file that a step makes or removes. */
function madeFile(step: StepView): readonly unknown[] {
  return asObject(step.body)["expect"] === undefined ? [fileOf(step)] : [];
}

/** Of a file beside the task that is looked at, and not only read: an agent works in the workspace. */
function ownFiles({ kind, body, bodyPath }: StepView): PlacedNote[] {
  const { path: file, expect, outputs } = asObject(body);
  const at = [...bodyPath, "path"];
  if (kind !== "file" || expect === undefined || outputs !== undefined) return [];
  if (typeof file !== "string" || /^(?:[/\\]|[A-Za-z]:)|\{/.test(file)) return [];
  const message = `${formatKeyPath(at)}: ${JSON.stringify(file)} is a file beside the task, which is the same in every trial unless an agent leaves its workspace; write {workspace}/… for one in it`;
  return [{ message, path: at }];
}

/** Of steps that compare what they find with what an earlier step found in the same way. */
function repeatedLooks(verify: readonly StepView[]): PlacedNote[] {
  return verify.flatMap((step, index) => {
    const expected = JSON.stringify(asObject(step.body)["expect"] ?? null);
    const same = verify
      .slice(0, index)
      .find(
        (other) =>
          other.ownId !== undefined &&
          expected.includes(`steps.${other.ownId}.`) &&
          lookOf(other) === lookOf(step),
      );
    if (same === undefined) return [];
    const path = [...step.bodyPath, "expect"];
    const message = `${formatKeyPath(path)}: the step ${same.ownId ?? ""} looks at the same in the same way, so that this is compared with itself unless a step between them changes it`;
    return [{ message, path }];
  });
}

/** What a step looks at, without what it expects there. */
function lookOf({ kind, first, rest, body }: StepView): string {
  const keys = ["id", "name", "outputs", "expect", "retry", "stableFor", "timeout", "if"];
  const look = Object.entries(asObject(body)).filter(([key]) => !keys.includes(key));
  return JSON.stringify([kind, kind === "call" ? [first, rest] : [], look]);
}

function weakIn({ kind, body, bodyPath }: StepView): PlacedNote[] {
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
