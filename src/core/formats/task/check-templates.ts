import { asObject, asText, formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import { mostProblems, type Problem } from "../problem.ts";
import { checkComparisons, checkCondition, checkExpectations } from "./check-expectations.ts";
import { checkStepPaths } from "./check-paths.ts";
import {
  checkOutput,
  checkText,
  type DeclaredOutputs,
  givesOutputs,
  isFromOutside,
  type Locals,
  partsOf,
  slips,
  solutionValues,
  spellingNotes,
  type TaskNames,
  type TextScope,
  valuesOf,
  variableOf,
} from "./check-text.ts";
import { argumentNotes, checkUntrusted, rawNotes } from "./check-untrusted.ts";
import type { PromptTurn } from "./read-prompt.ts";
import { innerLists } from "./step-forms.ts";
import type { PlacedNote, TaskFiles } from "./task-options.ts";
import type { StepView } from "./view-steps.ts";
import type { TaskView } from "./view-task.ts";

const noSteps = "is of no use here: no step has run by then";
const noAgent = "exists only in verify and cleanup, after the agent";
const beforeSteps = { steps: noSteps, agent: noAgent };
const beforeAgent = { agent: noAgent };

/** What is known while texts are checked in the order in which they are used. */
interface Walk {
  readonly names: TaskNames;
  readonly files: TaskFiles;
  readonly earlier: Map<string, DeclaredOutputs>;
  readonly absent: TextScope["absent"];
  readonly locals: Locals;
  /** How many problems there are. */
  readonly told: { count: number };
  readonly notes: PlacedNote[];
}

export interface CheckedTemplates {
  readonly problems: readonly Problem[];
  /** What is taken as text, although it looks like a template. */
  readonly notes: readonly PlacedNote[];
}

/**
 * Checks every template of a task: what it refers to has to be there when the text is used. Texts without templates are
 * checked for what they are: paths, regular expressions, JSON paths, addresses.
 */
export function checkTemplates(
  view: TaskView,
  turns: readonly PromptTurn[],
  known: { readonly names: TaskNames; readonly files: TaskFiles },
): CheckedTemplates {
  const { setup, verify, cleanup } = view.steps;
  const notes: PlacedNote[] = [];
  const start: Walk = {
    ...known,
    earlier: new Map(),
    absent: beforeSteps,
    locals: new Map(),
    told: { count: 0 },
    notes,
  };
  const early = { ...start, absent: beforeAgent };
  const problems = [
    ...textsAt(view.spec, ["spec"], "env").flatMap(({ text, path }) => check(text, path, start)),
    ...checkServers(view.spec, start),
    ...walkList(setup, early),
    ...turns.flatMap(({ text, path }) => check(text, path, early)),
    // What only the oracle does is not there for the steps that follow.
    ...walkActions(view.spec["solution"], ["spec", "solution"], {
      ...early,
      earlier: new Map(early.earlier),
    }),
  ];
  const late = { ...start, absent: {} };
  const later = [...walkList(verify, late), ...walkList(cleanup.toReversed(), late)];
  return { problems: [...problems, ...later], notes };
}

function check(text: string, path: KeyPath, walk: Walk): Problem[] {
  if (walk.notes.length < mostProblems)
    for (const note of [
      ...spellingNotes(text, path, walk.locals),
      ...rawNotes(text, path, walk.locals),
    ].slice(0, mostProblems))
      walk.notes.push(note);
  return counted(walk, () => [...slips(text, path, walk.locals), ...checkText(text, path, walk)]);
}

/** Checks what a step or an action gives out; `values` are those that only this text may use. */
function checkOutputs(
  parent: Json,
  path: KeyPath,
  { walk, values }: { walk: Walk; values: Locals },
): Problem[] {
  const locals: Locals = new Map([...walk.locals, ...values]);
  const outputs = isJsonObject(parent) ? parent["outputs"] : undefined;
  return Object.entries(asObject(outputs)).flatMap(([name, text]) => {
    if (typeof text !== "string") return [];
    const at = [...path, "outputs", name];
    const found = checkOutput(text, at, { locals, values });
    if (walk.notes.length < mostProblems) for (const note of found.notes) walk.notes.push(note);
    return counted(walk, () => [...found.problems, ...checkText(text, at, { ...walk, locals })]);
  });
}

function counted({ told }: Walk, find: () => Problem[]): Problem[] {
  if (told.count >= mostProblems) return [];
  const problems = find();
  told.count += problems.length;
  return problems;
}

/** A server's address is made before any other server's is known. */
function checkServers(spec: JsonObject, walk: Walk): Problem[] {
  return textsAt(spec, ["spec"], "servers").flatMap(({ text, path }) => {
    const isUrl = path.length === 4 && path[3] === "url";
    const absent = { ...walk.absent, servers: "cannot be part of an address" };
    return check(text, path, isUrl ? { ...walk, absent } : walk);
  });
}

function walkList(views: readonly StepView[], walk: Walk): Problem[] {
  return views.flatMap((view) => walkStep(view, walk));
}

function walkStep(view: StepView, walk: Walk): Problem[] {
  const own = ownTexts(view).flatMap(({ text, path }) => check(text, path, walk));
  const inner = walkInner(view, walk);
  const values = valuesOf(view);
  const after = view.isShort ? [] : checkOutputs(view.body, view.bodyPath, { walk, values });
  if (view.ownId !== undefined) walk.earlier.set(view.ownId, declaredOutputs(view));
  const compared = checkComparisons(view, walk.locals);
  if (walk.notes.length < mostProblems)
    for (const note of [...compared.notes, ...argumentNotes(view, walk.locals)]) walk.notes.push(note);
  const plain = [
    ...checkStepPaths(view, walk),
    ...checkExpectations(view, walk.locals),
    ...checkAddress(view, walk.locals),
    ...checkCondition(view, walk.locals),
    // What refers to nothing is wrong wherever it stands.
    ...(own.length > 0 ? [] : checkUntrusted(view, walk.locals)),
    ...compared.problems,
  ];
  return [...own, ...plain, ...inner, ...after];
}

function walkInner(view: StepView, walk: Walk): Problem[] {
  const { setup, steps, cleanup } = view.inner;
  if (view.kind === "anyOf") return walkAlternatives(steps, walk);
  const variable = view.kind === "foreach" ? variableIn(view.body, walk.locals) : new Map<string, never>();
  const inside = { ...walk, locals: new Map([...walk.locals, ...variable]) };
  return [setup, steps, cleanup.toReversed()].flatMap((list) => walkList(list, inside));
}

/** An alternative is tried only when those before it did not pass, and then they gave nothing. */
function walkAlternatives(steps: readonly StepView[], walk: Walk): Problem[] {
  const walks = steps.map((step) => ({ step, walk: { ...walk, earlier: new Map(walk.earlier) } }));
  const problems = walks.flatMap((each) => walkStep(each.step, each.walk));
  for (const { walk: after } of walks) {
    for (const [id, outputs] of after.earlier) walk.earlier.set(id, outputs);
  }
  return problems;
}

function variableIn(body: Json, locals: Locals): Locals {
  const name = isJsonObject(body) ? body["var"] : undefined;
  if (typeof name !== "string" || !isJsonObject(body)) return new Map();
  const items = body["in"];
  const parts = textsIn(items ?? null, []).flatMap(({ text }) => partsOf(text, locals));
  const trusted = parts.every((part) => typeof part === "string" || !isFromOutside(part, locals));
  return new Map([[name, variableOf(items, { trusted })]]);
}

/** The outputs that a step declares, or that only it knows. */
export function declaredOutputs(view: StepView): DeclaredOutputs {
  if (givesOutputs(view)) return "any";
  const outputs = isJsonObject(view.body) ? view.body["outputs"] : undefined;
  return isJsonObject(outputs) ? Object.keys(outputs) : [];
}

/** Keys of steps whose values are no templates, or are looked at by themselves. */
const apart = ["id", "name", "timeout", "retry", "stableFor", "outputs", "var", ...innerLists];
const plainKeys: Readonly<Partial<Record<StepView["kind"], readonly string[]>>> = {
  script: ["protocol"],
  file: ["mode"],
  extension: ["package", "action"],
};

function ownTexts({ kind, body, bodyPath, isShort }: StepView): FoundText[] {
  if (isShort || !isJsonObject(body)) return [];
  const skipped = kind === "operation" ? ["id", "timeout", "retry", "stableFor", "outputs"] : apart;
  const keys = Object.keys(body).filter(
    (key) => !skipped.includes(key) && plainKeys[kind]?.includes(key) !== true,
  );
  return keys.flatMap((key) => textsAt(body, bodyPath, key));
}

function walkActions(list: Json | undefined, path: KeyPath, walk: Walk): Problem[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((action: Json, index) => {
    const [key] = isJsonObject(action) ? Object.keys(action) : [];
    if (!isJsonObject(action) || key === undefined) return [];
    return walkAction(action[key] ?? null, [...path, index, key], walk);
  });
}

function walkAction(body: Json, path: KeyPath, walk: Walk): Problem[] {
  const isForeach = path.at(-1) === "foreach";
  const skipped = isForeach ? ["var", "steps"] : ["id", "server", "outputs"];
  const keys = isJsonObject(body) ? Object.keys(body).filter((key) => !skipped.includes(key)) : [];
  const texts = isJsonObject(body) ? keys.flatMap((key) => textsAt(body, path, key)) : textsIn(body, path);
  const own = texts.flatMap((each) => check(each.text, each.path, walk));
  if (!isJsonObject(body)) return own;
  if (isForeach) {
    const inside = { ...walk, locals: new Map([...walk.locals, ...variableIn(body, walk.locals)]) };
    return [...own, ...walkActions(body["steps"], [...path, "steps"], inside)];
  }
  const after = checkOutputs(body, path, { walk, values: solutionValues });
  const { id, outputs } = body;
  if (typeof id === "string") walk.earlier.set(id, isJsonObject(outputs) ? Object.keys(outputs) : []);
  return [...own, ...after];
}

interface FoundText {
  readonly text: string;
  readonly path: KeyPath;
}

function textsAt(parent: Json, path: KeyPath, key: string): FoundText[] {
  const value = isJsonObject(parent) ? parent[key] : undefined;
  return value === undefined ? [] : textsIn(value, [...path, key]);
}

/** Every text in a value, with its path. */
function textsIn(value: Json, path: KeyPath): FoundText[] {
  if (typeof value === "string") return value.includes("{") ? [{ text: value, path }] : [];
  if (typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item: Json, index) => textsIn(item, [...path, index]));
  return Object.entries(value).flatMap(([key, member]) => textsIn(member, [...path, key]));
}

/** Checks that the address of an `http` step is one, as far as that can be told before it runs. */
function checkAddress({ kind, body, bodyPath }: StepView, locals: Locals): Problem[] {
  const url = kind === "http" ? asText(asObject(body)["url"]) : undefined;
  const [first] = url === undefined ? [] : partsOf(url, locals);
  if (typeof first !== "string" || /^https?:\/\/./i.test(first) || /^https?:\/\/$/i.test(first)) return [];
  const path = [...bodyPath, "url"];
  const message = `${formatKeyPath(path)} must be a URL that starts with http:// or https://`;
  return [{ code: "config/invalid-value", message, path, at: "value" }];
}
