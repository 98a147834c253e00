import { asObject, asText, formatKeyPath, isJsonObject, type Json, type KeyPath, valueAt } from "../json.ts";
import type { Locate } from "../problem.ts";
import {
  echoedArguments,
  inexactNumbers,
  looseSchemas,
  shortTexts,
  strayKeys,
} from "../weak-expectations.ts";
import { allActions, allSteps, type PlacedStep, type TaskSource, walkPlaced } from "./read-task.ts";
import type { PlacedNote } from "./task-options.ts";

/** What of a valid task may not do what its author expects, one sentence each, with lines and in the order of the file. */
export function taskNotes(source: TaskSource, checked: readonly PlacedNote[], locate: Locate): string[] {
  const verify = [...walkPlaced(source.steps.verify)];
  const made = new Set(allSteps(source).flatMap(madeFile));
  const placed = [
    ...checked,
    ...source.extensions.notes,
    ...nullArguments(source).filter(({ path }) => !isWritten(path, locate)),
    ...verify.flatMap((step) => filesBesideTask(step, made)),
    ...repeatedLooks(verify),
    ...verify.flatMap(weakExpectations),
  ];
  return [...usageNotes(source), ...placeNotes(placed, locate)];
}

/** Writes notes with their lines, in the order of the file, each once. */
function placeNotes(notes: readonly PlacedNote[], locate: Locate): string[] {
  const placed = notes.map(({ message, ...place }) => ({
    message,
    line: locate({ ...place, at: "value" })?.line,
  }));
  const written = placed
    .toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0))
    .map(({ message, line }) => (line === undefined ? message : `line ${line}: ${message}`));
  return [...new Set(written)];
}

/** Notes on what is written and has no effect. */
function usageNotes(source: TaskSource): string[] {
  const used = new Set(
    allSteps(source).map(({ step }) => (step.type === "extension" ? step.extension : undefined)),
  );
  const unused = source.imports.filter(({ as }) => !used.has(as));
  const stopping = source.steps.cleanup.filter(({ step }) => step.continueOnError === false);
  return [
    ...unused.map(({ as }) => `the import ${JSON.stringify(as)} is not used`),
    ...stopping.map(
      ({ step }) => `${step.id}: continueOnError: false has no effect; all of cleanup always runs`,
    ),
  ];
}

/** Arguments of tools that are null: YAML makes one of `name` in `{ query: SELECT id, name }`. */
function nullArguments(source: TaskSource): PlacedNote[] {
  const calls = allSteps(source).filter(({ step }) => step.type === "mcp");
  return [
    ...calls.flatMap(({ body, bodyPath }) => nullsIn(body["args"], [...bodyPath, "args"])),
    ...allActions(source.solution).flatMap(({ body, path }) =>
      nullsIn(isJsonObject(body) ? body["args"] : undefined, [...path, "args"]),
    ),
  ];
}

function nullsIn(value: Json | undefined, path: KeyPath): PlacedNote[] {
  if (Array.isArray(value)) return value.flatMap((item: Json, index) => nullsIn(item, [...path, index]));
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([key, member]) => {
    const at = [...path, key];
    if (member !== null) return nullsIn(member, at);
    const message = `${formatKeyPath(at)} is null: a text with a comma, or with braces, has to be in quotes`;
    return [{ message, path: at }];
  });
}

/** Whether a null is written out: any other one has no place but that of its key. */
function isWritten(path: KeyPath, locate: Locate): boolean {
  const [key, value] = [locate({ path, at: "key" }), locate({ path, at: "value" })];
  return key?.line !== value?.line || key?.column !== value?.column;
}

/** The path of a file that a step makes or removes. */
function madeFile({ step }: PlacedStep): readonly string[] {
  return step.type === "file" && step.action.kind !== "check" ? [step.path] : [];
}

/** A file beside the task of which something is expected: an agent works in the workspace. */
function filesBesideTask({ step, bodyPath }: PlacedStep, made: ReadonlySet<string>): PlacedNote[] {
  if (step.type !== "file" || step.action.kind !== "check" || step.outputs !== undefined) return [];
  if (made.has(step.path) || /^(?:[/\\]|[A-Za-z]:)|\{/.test(step.path)) return [];
  const path = [...bodyPath, "path"];
  const message = `${formatKeyPath(path)}: ${JSON.stringify(step.path)} is a file beside the task, which is the same in every trial unless an agent leaves its workspace; write {workspace}/… for one in it`;
  return [{ message, path }];
}

/** Steps that compare what they find with what an earlier step found in the same way. */
function repeatedLooks(verify: readonly PlacedStep[]): PlacedNote[] {
  return verify.flatMap((placed, index) => {
    const expected = JSON.stringify(placed.body["expect"] ?? null);
    const same = verify
      .slice(0, index)
      .find(
        (other) =>
          other.ownId !== undefined &&
          expected.includes(`steps.${other.ownId}.`) &&
          lookOf(other) === lookOf(placed),
      );
    if (same === undefined) return [];
    const path = [...placed.bodyPath, "expect"];
    const message = `${formatKeyPath(path)}: the step ${same.step.id} looks at the same in the same way, so that this is compared with itself unless a step between them changes it`;
    return [{ message, path }];
  });
}

/** What a step looks at, without what it expects there. */
function lookOf({ bodyPath, body }: PlacedStep): string {
  const keys = ["id", "name", "outputs", "expect", "retry", "stableFor", "timeout", "if"];
  const look = Object.entries(body).filter(([key]) => !keys.includes(key));
  return JSON.stringify([bodyPath.at(-1), look]);
}

/** Expectations that say less than their author may think. */
function weakExpectations({ step, body, bodyPath }: PlacedStep): PlacedNote[] {
  const { args } = body;
  const [argsPath, expectPath] = [
    [...bodyPath, "args"],
    [...bodyPath, "expect"],
  ];
  const texts = [[], ["stdout"], ["stderr"], ["body"], ["text"]].flatMap((keys) => {
    const contains = valueAt(body, ["expect", ...keys, "contains"]);
    const path = [...expectPath, ...keys, "contains"];
    return Array.isArray(contains)
      ? contains.flatMap((text: unknown, index) => shortTexts(text, [...path, index]))
      : shortTexts(contains, path);
  });
  const ofCall = [
    ...echoes(body, bodyPath),
    ...strayKeys(args, ["expect"], argsPath),
    ...looseSchemas(valueAt(body, ["expect", "schema"]), [...expectPath, "schema"]),
  ];
  return [
    ...texts,
    ...(step.type === "mcp" ? ofCall : []),
    ...inexactNumbers(args, argsPath),
    ...inexactNumbers(body["expect"], expectPath),
  ];
}

/** Texts that a call is expected to give, and that it is given. */
function echoes(body: PlacedStep["body"], bodyPath: KeyPath): PlacedNote[] {
  const tool = asText(body["tool"]) ?? String(bodyPath.at(-1));
  const text = valueAt(body, ["expect", "text"]);
  const { equals, contains } = asObject(text);
  const expected = typeof text === "string" ? text : [equals, contains];
  return echoedArguments(expected, { tool, args: body["args"] }, [...bodyPath, "expect", "text"]);
}
