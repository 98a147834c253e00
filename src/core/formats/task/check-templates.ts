import { asObject, formatKeyPath, type Json, type JsonObject, type KeyPath } from "../json.ts";
import { mostProblems, type Problem } from "../problem.ts";
import { answerValues, type HasNames, innerLists } from "../step-kinds.ts";
import { checkStep } from "./check-steps.ts";
import {
  checkOutput,
  checkSpelling,
  checkText,
  type DeclaredOutputs,
  isFromOutside,
  type Locals,
  partsOf,
  type TaskNames,
  textsIn,
  type TextScope,
  variableOf,
} from "./check-text.ts";
import type { PlacedAction, PlacedStep, TaskSource } from "./read-task.ts";
import type { Findings, PlacedNote, TaskFiles } from "./task-options.ts";

const noAgent = "exists only in verify and cleanup, after the agent";
const beforeSteps = { steps: "cannot be used here: no step has run yet", agent: noAgent };
const beforeAgent = { agent: noAgent };

/** One user turn, and where it, or the name of its file, stands. */
export interface PromptTurn {
  readonly text: string;
  readonly path: KeyPath;
}

/** What is known while texts are checked in the order in which they are used. */
interface Walk {
  readonly names: TaskNames;
  readonly files: TaskFiles;
  /** Outputs of the steps so far. */
  readonly earlier: Map<string, DeclaredOutputs>;
  /** Roots that do not exist yet, with the reason. */
  readonly absent: TextScope["absent"];
  readonly locals: Locals;
  readonly found: { readonly problems: Problem[]; readonly notes: PlacedNote[] };
}

/**
 * Checks every template of a task: what it refers to has to exist when the text is used. Texts without templates are
 * checked for what they are: paths, regular expressions, JSON paths, addresses.
 */
export function checkTemplates(
  { document, steps, solution }: TaskSource,
  turns: readonly PromptTurn[],
  known: { readonly names: TaskNames; readonly files: TaskFiles },
): Findings {
  const found: Walk["found"] = { problems: [], notes: [] };
  const start: Walk = { ...known, earlier: new Map(), absent: beforeSteps, locals: new Map(), found };
  const early = { ...start, absent: beforeAgent };
  const late = { ...start, absent: {} };
  const spec = asObject(document["spec"]) as JsonObject;
  checkTexts(spec["env"], ["spec", "env"], start);
  // A server's address is made before any other server's is known.
  const addresses = { ...start, absent: { ...beforeSteps, servers: "cannot be part of an address" } };
  for (const [name, server] of Object.entries(asObject(spec["servers"]))) {
    const { url, ...rest } = asObject(server) as JsonObject;
    const path = ["spec", "servers", name];
    checkTexts(url, [...path, "url"], addresses);
    checkTexts(rest, path, start);
  }
  checkSteps(steps.setup, early);
  for (const { text, path } of turns) checkTexts(text, path, early);
  // What only the oracle does does not exist for the steps that follow.
  checkActions(solution, { ...early, earlier: new Map(early.earlier) });
  checkSteps(steps.verify, late);
  checkSteps(steps.cleanup.toReversed(), late);
  return found;
}

function add({ problems, notes }: Findings, { found }: Walk): void {
  for (const problem of problems) if (found.problems.length < mostProblems) found.problems.push(problem);
  for (const note of notes) if (found.notes.length < mostProblems) found.notes.push(note);
}

/** Checks the templates in every text of a value, and says whether all refer to something. */
function checkTexts(value: Json | undefined, at: KeyPath, walk: Walk): boolean {
  let isRight = true;
  for (const { text, path } of textsIn(value ?? null, at)) {
    if (walk.found.problems.length >= mostProblems) return false;
    const spelling = checkSpelling(text, path, walk.locals);
    const problems = [...spelling.problems, ...checkText(text, path, walk)];
    isRight &&= problems.length === 0;
    add({ problems, notes: [...spelling.notes, ...rawNotes(text, path, walk.locals)] }, walk);
  }
  return isRight;
}

/** Notes on values from outside that are inserted as they are. */
function rawNotes(text: string, path: KeyPath, locals: Locals): PlacedNote[] {
  return partsOf(text, locals).flatMap((part) => {
    if (typeof part === "string" || part.filter?.kind !== "raw" || !isFromOutside(part, locals)) return [];
    const message = `${formatKeyPath(path)}: ${part.text} inserts a value from outside as it is, so that it can act as code, as a pattern or as a path`;
    return [{ message, path, text: part.text }];
  });
}

/** Checks the outputs of a step or an action; `values` are those that only these texts may use. */
function checkOutputs(
  outputs: Readonly<Record<string, string>> | undefined,
  path: KeyPath,
  { walk, values }: { readonly walk: Walk; readonly values: Readonly<Record<string, HasNames>> },
): void {
  const own: Locals = new Map(Object.entries({ outputs: () => false, ...values }));
  const locals: Locals = new Map([...walk.locals, ...own]);
  for (const [name, text] of Object.entries(outputs ?? {})) {
    if (walk.found.problems.length >= mostProblems) return;
    const at = [...path, "outputs", name];
    const { problems, notes } = checkOutput(text, at, { locals, values: own });
    add({ problems: [...problems, ...checkText(text, at, { ...walk, locals })], notes }, walk);
  }
}

function checkSteps(steps: readonly PlacedStep[], walk: Walk): void {
  for (const placed of steps) checkOneStep(placed, walk);
}

/** Keys of every body whose values are no templates, or are checked by themselves. */
const apart = ["id", "timeout", "retry", "stableFor", "outputs"];

function checkOneStep(placed: PlacedStep, walk: Walk): void {
  const { step, kind, body, bodyPath, isShort, ownId } = placed;
  const isOperation = step.type === "extension" && bodyPath.at(-1) !== "extension";
  const skipped = isOperation ? apart : [...apart, "name", ...innerLists, ...(kind.plainKeys ?? [])];
  const own = isShort ? [] : Object.entries(body).filter(([key]) => !skipped.includes(key));
  const checked = own.map(([key, value]) => checkTexts(value, [...bodyPath, key], walk));
  checkInner(placed, walk);
  checkOutputs(step.outputs, bodyPath, { walk, values: kind.values(step) });
  if (ownId !== undefined) walk.earlier.set(ownId, declaredOutputs(placed));
  const { files, locals } = walk;
  add(checkStep(placed, { files, locals, isResolved: checked.every(Boolean) }), walk);
}

function checkInner({ step, inner }: PlacedStep, walk: Walk): void {
  if (step.type === "anyOf") {
    checkAlternatives(inner.steps, walk);
    return;
  }
  const variable = step.type === "foreach" ? [loopVariable(step, walk.locals)] : [];
  const inside = { ...walk, locals: new Map([...walk.locals, ...variable]) };
  for (const list of [inner.setup, inner.steps, inner.cleanup.toReversed()]) checkSteps(list, inside);
}

/** An alternative is tried only when those before it did not pass, and then they gave nothing. */
function checkAlternatives(steps: readonly PlacedStep[], walk: Walk): void {
  const after = steps.map((step) => {
    const earlier = new Map(walk.earlier);
    checkOneStep(step, { ...walk, earlier });
    return earlier;
  });
  for (const [id, outputs] of after.flatMap((earlier) => [...earlier])) walk.earlier.set(id, outputs);
}

/** The variable of a `foreach`; it is trusted when no value from outside is among the items. */
function loopVariable(
  { variable, in: items }: { readonly variable: string; readonly in: Json },
  locals: Locals,
): readonly [string, ReturnType<typeof variableOf>] {
  const parts = textsIn(items, []).flatMap(({ text }) => partsOf(text, locals));
  const trusted = parts.every((part) => typeof part === "string" || !isFromOutside(part, locals));
  return [variable, variableOf(items, { trusted })];
}

/** The outputs that a step declares, or that only it knows. */
export function declaredOutputs({ step, kind }: PlacedStep): DeclaredOutputs {
  return "outputs" in kind.values(step) ? "any" : Object.keys(step.outputs ?? {});
}

function checkActions(actions: readonly PlacedAction[], walk: Walk): void {
  for (const { action, path, body, inner } of actions) {
    if (action.kind === "say") checkTexts(body, path, walk);
    else if (action.kind === "foreach") {
      checkTexts(action.in, [...path, "in"], walk);
      const locals = new Map([...walk.locals, loopVariable(action, walk.locals)]);
      checkActions(inner, { ...walk, locals });
    } else {
      const { id: _, server: __, outputs: ___, ...asked } = asObject(body) as JsonObject;
      checkTexts(asked, path, walk);
      checkOutputs(action.outputs, path, { walk, values: answerValues });
      if (action.id !== undefined) walk.earlier.set(action.id, Object.keys(action.outputs ?? {}));
    }
  }
}
