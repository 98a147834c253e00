import {
  echoedArguments,
  type Idleness,
  idlenessOf,
  inexactNumbers,
  looseSchemas,
  shortTexts,
  strayKeys,
} from "../weak-expectations.ts";
import { asObject, asText, isJsonObject, type Json, type KeyPath, valueAt } from "../json.ts";
import type { Locate } from "../problem.ts";
import { allActions, allSteps, type PlacedStep, type TaskSource, walkPlaced } from "./read-task.ts";
import { Findings, type PlacedNote, type TaskFiles } from "./task-options.ts";

/**
 * Refuses a verify phase in which nothing could fail, and a step in it that does nothing. Notes which steps cannot fail
 * though they do something.
 */
export function checkVerify(verify: readonly PlacedStep[], files: TaskFiles): Findings {
  const found = new Findings();
  const all = [...inVerify(verify)];
  for (const placed of all) {
    checkIdle(placed, files, found);
    checkOpposites(placed, found);
  }
  if (found.problems.length > 0) return found;
  if (!verify.some((placed) => canFail(placed, files)))
    found.checksNothing(
      ["spec", "verify"],
      "checks nothing: none of its steps could fail",
      "Creating or removing a file checks nothing, nor does a command whose last part always succeeds; with continueOnError a failure does not count.",
    );
  for (const placed of all)
    if (!programMayFail(placed, files))
      found.note(
        placed.bodyPath,
        "cannot fail: its last command always succeeds or only creates something, whatever the commands before it found",
      );
  return found;
}

/** Every step that may be a check, those inside others included. */
function* inVerify(steps: readonly PlacedStep[]): Generator<PlacedStep> {
  for (const placed of steps) {
    yield placed;
    yield* inVerify(placed.inner.steps);
  }
}

/** The known program of a step that has to exit with 0, and whether its output is checked. */
function programOf(
  { step, kind }: PlacedStep,
  files: TaskFiles,
): { readonly idleness?: Idleness | undefined; readonly isRead: boolean } {
  const program = kind.program?.(step, (file) => files.read(file));
  return program === undefined
    ? { isRead: false }
    : { idleness: idlenessOf(program.text), isRead: program.isRead };
}

function programMayFail(placed: PlacedStep, files: TaskFiles): boolean {
  const { idleness, isRead } = programOf(placed, files);
  return isRead || idleness === undefined;
}

/** Whether a step could fail, and that would count. */
function canFail(placed: PlacedStep, files: TaskFiles): boolean {
  const { step, kind, inner } = placed;
  if (step.continueOnError === true) return false;
  const outcomes = inner.steps.map((each) => ({
    canFail: canFail(each, files),
    counts: each.step.continueOnError !== true,
  }));
  return programMayFail(placed, files) && kind.canFail?.(step, outcomes) !== false;
}

/** Refuses a step that has the same end whatever an agent did. */
function checkIdle(placed: PlacedStep, files: TaskFiles, found: Findings): void {
  const { idleness, isRead } = programOf(placed, files);
  const hint = "Write the check, or remove the step.";
  if (idleness === "idle")
    found.checksNothing(
      placed.bodyPath,
      "checks nothing: there is no command in it that does anything",
      hint,
    );
  else if (isRead && idleness === "constant")
    found.checksNothing(placed.bodyPath, "checks nothing: it writes the same, whatever the agent did", hint);
}

/** Refuses alternatives of which one always holds. */
function checkOpposites({ step, inner, bodyPath }: PlacedStep, found: Findings): void {
  if (step.type !== "anyOf") return;
  if (!inner.steps.some((one) => inner.steps.some((other) => areOpposite(one, other)))) return;
  const hint = "Leave out one of them, or the whole anyOf.";
  found.checksNothing(bodyPath, "checks nothing: one of two opposites always holds", hint);
}

function areOpposite(one: PlacedStep, other: PlacedStep): boolean {
  const [denied, ...more] = other.step.type === "not" ? other.inner.steps : [];
  if (denied !== undefined && more.length === 0) return whatOf(denied) === whatOf(one);
  const expect = asObject(one.body["expect"]);
  if (one.step.type !== "file" || typeof expect["exists"] !== "boolean") return false;
  const opposite = { ...one.body, expect: { ...expect, exists: !expect["exists"] } };
  return whatOf({ ...one, body: opposite }) === whatOf(other);
}

/** A step's key and body as a text, without some keys. */
function whatOf(
  { bodyPath, body }: PlacedStep,
  without: readonly string[] = ["id", "name", "outputs"],
): string {
  return JSON.stringify([bodyPath.at(-1), Object.entries(body).filter(([key]) => !without.includes(key))]);
}

/** What of a valid task may not do what its author expects, one sentence each, with lines and in the order of the file. */
export function taskNotes(source: TaskSource, checked: readonly PlacedNote[], locate: Locate): string[] {
  const found = new Findings();
  const steps = allSteps(source);
  const verify = [...walkPlaced(source.steps.verify)];
  noteNullArguments(source, locate, found);
  noteFilesBesideTask(verify, steps, found);
  noteRepeatedLooks(verify, found);
  const notes = [
    ...checked,
    ...source.extensions.notes,
    ...found.notes,
    ...verify.flatMap(weakExpectations),
  ].map(({ message, ...place }) => ({ message, line: locate({ ...place, at: "value" })?.line }));
  const written = notes
    .toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0))
    .map(({ message, line }) => (line === undefined ? message : `line ${line}: ${message}`));
  const used = new Set(steps.map(({ step }) => (step.type === "extension" ? step.extension : undefined)));
  const unused = source.imports.filter(({ as }) => !used.has(as));
  const stopping = source.steps.cleanup.filter(({ step }) => step.continueOnError === false);
  return [
    ...unused.map(({ as }) => `the import ${JSON.stringify(as)} is not used`),
    ...stopping.map(
      ({ step }) => `${step.id}: continueOnError: false has no effect; all of cleanup always runs`,
    ),
    ...new Set(written),
  ];
}

/** Arguments of tools that are null: YAML makes one of `name` in `{ query: SELECT id, name }`. */
function noteNullArguments(source: TaskSource, locate: Locate, found: Findings): void {
  const calls = [
    ...allSteps(source)
      .filter(({ step }) => step.type === "mcp")
      .map(({ body, bodyPath }) => ({ body, path: bodyPath })),
    ...allActions(source.solution),
  ];
  for (const { body, path } of calls)
    for (const at of nullsIn(isJsonObject(body) ? body["args"] : undefined, [...path, "args"])) {
      const [key, value] = [locate({ path: at, at: "key" }), locate({ path: at, at: "value" })];
      // A null that is written out has another place than its key.
      if (key?.line === value?.line && key?.column === value?.column)
        found.note(at, "is null: a text with a comma, or with braces, has to be in quotes");
    }
}

function nullsIn(value: Json | undefined, path: KeyPath): KeyPath[] {
  if (Array.isArray(value)) return value.flatMap((item: Json, index) => nullsIn(item, [...path, index]));
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([key, member]) =>
    member === null ? [[...path, key]] : nullsIn(member, [...path, key]),
  );
}

/** Files beside the task of which something is expected: an agent works in the workspace. */
function noteFilesBesideTask(
  verify: readonly PlacedStep[],
  steps: readonly PlacedStep[],
  found: Findings,
): void {
  const made = new Set(
    steps.flatMap(({ step }) => (step.type === "file" && step.action.kind !== "check" ? [step.path] : [])),
  );
  for (const { step, bodyPath } of verify) {
    if (step.type !== "file" || step.action.kind !== "check" || step.outputs !== undefined) continue;
    if (made.has(step.path) || /^(?:[/\\]|[A-Za-z]:)|\{/.test(step.path)) continue;
    found.note(
      [...bodyPath, "path"],
      `: ${JSON.stringify(step.path)} is a file beside the task, which is the same in every trial unless an agent leaves its workspace; write {workspace}/… for one in it`,
    );
  }
}

/** Steps that compare what they find with what an earlier step found in the same way. */
function noteRepeatedLooks(verify: readonly PlacedStep[], found: Findings): void {
  const keys = ["id", "name", "outputs", "expect", "retry", "stableFor", "timeout", "if"];
  for (const [index, placed] of verify.entries()) {
    const expected = JSON.stringify(placed.body["expect"] ?? null);
    const same = verify
      .slice(0, index)
      .find(
        (other) =>
          other.ownId !== undefined &&
          expected.includes(`steps.${other.ownId}.`) &&
          whatOf(other, keys) === whatOf(placed, keys),
      );
    if (same !== undefined)
      found.note(
        [...placed.bodyPath, "expect"],
        `: the step ${same.step.id} looks at the same in the same way, so that this is compared with itself unless a step between them changes it`,
      );
  }
}

/** Expectations that say less than their author may think. */
function weakExpectations({ step, body, bodyPath }: PlacedStep): PlacedNote[] {
  const { args, expect } = body;
  const argsPath = [...bodyPath, "args"];
  const expectPath = [...bodyPath, "expect"];
  const texts = [[], ["stdout"], ["stderr"], ["body"], ["text"]].flatMap((keys) => {
    const contains = valueAt(expect, [...keys, "contains"]);
    const path = [...expectPath, ...keys, "contains"];
    return Array.isArray(contains)
      ? contains.flatMap((text: unknown, index) => shortTexts(text, [...path, index]))
      : shortTexts(contains, path);
  });
  const text = valueAt(expect, ["text"]);
  const { equals, contains } = asObject(text);
  const tool = asText(body["tool"]) ?? String(bodyPath.at(-1));
  const ofCall = [
    ...echoedArguments(typeof text === "string" ? text : [equals, contains], { tool, args }, [
      ...expectPath,
      "text",
    ]),
    ...strayKeys(args, ["expect"], argsPath),
    ...looseSchemas(valueAt(expect, ["schema"]), [...expectPath, "schema"]),
  ];
  return [
    ...texts,
    ...(step.type === "mcp" ? ofCall : []),
    ...inexactNumbers(args, argsPath),
    ...inexactNumbers(expect, expectPath),
  ];
}
