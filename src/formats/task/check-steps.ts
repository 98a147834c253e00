import { compilePattern, compileTextPattern } from "../../templates/pattern.ts";
import { type FindPlace, inIgnoredPath, inJsonPath, inPattern, nowhere } from "../../templates/places.ts";
import { selectJson } from "../../templates/select-json.ts";
import { asObject, isJsonObject, type Json, type JsonObject, type KeyPath } from "../../base/json.ts";
import { answerValues, type HasNames, innerLists, type Step, type TextRole } from "../../model/step.ts";
import {
  emptyObjectProblem,
  inexactNumbers,
  isContainedEverywhere,
  resultProblems,
  schemaProblems,
  strayKeys,
} from "../../expect/weak-expectations.ts";
import {
  checkOutput,
  checkPath,
  checkPlaces,
  checkSpelling,
  checkText,
  type DeclaredOutputs,
  expressionsIn,
  isFromOutside,
  type Locals,
  partsOf,
  staticText,
  type TaskNames,
  type TextScope,
  textsIn,
  variableOf,
} from "./check-texts.ts";
import {
  allActions,
  allSteps,
  type PlacedAction,
  type PlacedStep,
  type TaskSource,
  walkPlaced,
} from "./read-task.ts";
import type { WrittenUser } from "../../model/task.ts";
import { Findings, type PlacedNote, type TaskFiles } from "./task-options.ts";
import type { Locate } from "../../base/problem.ts";
import { leavesNothing } from "../../expect/expectations.ts";

const noAgent = "exists only in verify and cleanup, after the agent";
const beforeSteps = { steps: "cannot be used here: no step has run yet", agent: noAgent };

/** One user turn or a simulated user, with its place or that of its file's name. */
export interface PromptTurn {
  readonly user: string | WrittenUser;
  readonly path: KeyPath;
}

/** What is known while texts are checked in the order in which they are used. */
interface Walk extends TextScope {
  readonly files: TaskFiles;
  readonly earlier: Map<string, DeclaredOutputs>;
  readonly found: Findings;
}

/**
 * Checks every template of a task: what it refers to has to exist when the text is used. Texts without templates are
 * checked for what they are: paths, regular expressions, JSON paths, addresses.
 */
export function checkTexts(
  { document, steps, solution }: TaskSource,
  turns: readonly PromptTurn[],
  known: { readonly names: TaskNames; readonly files: TaskFiles },
): Findings {
  const found = new Findings();
  const start: Walk = { ...known, earlier: new Map(), absent: beforeSteps, locals: new Map(), found };
  const early = { ...start, absent: { agent: noAgent } };
  const late = { ...start, absent: {} };
  const spec = asObject(document["spec"]) as JsonObject;
  checkTemplates(spec["env"], ["spec", "env"], start);
  // A server's address is made before any other server's is known.
  const addresses = { ...start, absent: { ...beforeSteps, servers: "cannot be part of an address" } };
  for (const [name, server] of Object.entries(asObject(spec["servers"]))) {
    const { url, ...rest } = asObject(server) as JsonObject;
    const path = ["spec", "servers", name];
    checkTemplates(url, [...path, "url"], addresses);
    checkTemplates(rest, path, start);
  }
  for (const step of steps.setup) checkStep(step, early);
  for (const { user, path } of turns) checkTemplates(user as Json, path, early);
  // What only the oracle does does not exist for the steps that follow.
  checkActions(solution, { ...early, earlier: new Map(early.earlier) });
  for (const step of [...steps.verify, ...steps.cleanup.toReversed()]) checkStep(step, late);
  return found;
}

/** Checks the templates in every text of a value, and says whether all refer to something. */
function checkTemplates(value: Json | undefined, at: KeyPath, walk: Walk): boolean {
  const { found, locals } = walk;
  const before = found.problems.length;
  for (const { text, path } of textsIn(value ?? null, at)) {
    if (found.isFull) return false;
    checkSpelling(text, path, locals, found);
    checkText(text, path, walk, found);
    for (const expression of expressionsIn(text, locals))
      if (expression.filter?.kind === "raw" && isFromOutside(expression, locals))
        found.note(
          path,
          `: ${expression.text} inserts a value from outside as it is, so that it can act as code, as a pattern or as a path`,
          expression.text,
        );
  }
  return found.problems.length === before;
}

/** Checks the outputs of a step or an action; `values` are those that only these texts may use. */
function checkOutputs(
  outputs: Readonly<Record<string, string>> = {},
  path: KeyPath,
  { walk, values }: { readonly walk: Walk; readonly values: Readonly<Record<string, HasNames>> },
): void {
  const own: Locals = new Map(Object.entries({ outputs: () => false, ...values }));
  const locals: Locals = new Map([...walk.locals, ...own]);
  for (const [name, text] of Object.entries(outputs)) {
    if (walk.found.isFull) return;
    const at = [...path, "outputs", name];
    checkOutput(text, at, { locals, values: own, found: walk.found });
    checkText(text, at, { ...walk, locals }, walk.found);
  }
}

/** Keys of every body whose values are no templates, or are checked by themselves. */
const apart = ["id", "timeout", "retry", "stableFor", "outputs"];

function checkStep(placed: PlacedStep, walk: Walk): void {
  const { step, kind, body, bodyPath, isShort, ownId, inner } = placed;
  const isOperation = step.type === "extension" && bodyPath.at(-1) !== "extension";
  const fixed = Object.values(kind.texts).flatMap(({ role, key }) => (role === "fixed" ? (key ?? []) : []));
  const skipped = isOperation ? apart : [...apart, "name", ...innerLists, ...fixed];
  const own = isShort ? [] : Object.entries(body).filter(([key]) => !skipped.includes(key));
  const checked = own.map(([key, value]) => checkTemplates(value, [...bodyPath, key], walk));
  if (step.type === "anyOf") {
    // An alternative is tried only when those before it did not pass, and then they gave nothing.
    const after = inner.steps.map((alternative) => {
      const earlier = new Map(walk.earlier);
      checkStep(alternative, { ...walk, earlier });
      return earlier;
    });
    for (const [id, outputs] of after.flatMap((earlier) => [...earlier])) walk.earlier.set(id, outputs);
  } else {
    const variable = step.type === "foreach" ? [loopVariable(step, walk.locals)] : [];
    const inside = { ...walk, locals: new Map([...walk.locals, ...variable]) };
    for (const each of [...inner.setup, ...inner.steps, ...inner.cleanup.toReversed()])
      checkStep(each, inside);
  }
  checkOutputs(step.outputs, bodyPath, { walk, values: kind.values(step) });
  if (ownId !== undefined) walk.earlier.set(ownId, declaredOutputs(placed));
  checkRoles(placed, walk, checked.every(Boolean));
  checkAddress(placed, walk);
  checkCondition(placed, walk);
}

/** The variable of a `foreach`; it is trusted when no value from outside is among the items. */
function loopVariable(
  { variable, in: items }: { readonly variable: string; readonly in: Json },
  locals: Locals,
): readonly [string, ReturnType<typeof variableOf>] {
  return [variable, variableOf(items, { trusted: valuesIn(items, locals).size === 0 })];
}

/** The outputs that a step declares, or that only it knows. */
export function declaredOutputs({ step, kind }: PlacedStep): DeclaredOutputs {
  return "outputs" in kind.values(step) ? "any" : Object.keys(step.outputs ?? {});
}

function checkActions(actions: readonly PlacedAction[], walk: Walk): void {
  for (const { action, path, body, inner } of actions) {
    if (action.kind === "say") checkTemplates(body, path, walk);
    else if (action.kind === "foreach") {
      checkTemplates(action.in, [...path, "in"], walk);
      const locals = new Map([...walk.locals, loopVariable(action, walk.locals)]);
      checkActions(inner, { ...walk, locals });
    } else {
      const { id: _, server: __, outputs: ___, ...asked } = asObject(body) as JsonObject;
      checkTemplates(asked, path, walk);
      checkOutputs(action.outputs, path, { walk, values: answerValues });
      if (action.id !== undefined) walk.earlier.set(action.id, Object.keys(action.outputs ?? {}));
    }
  }
}

interface Placed {
  readonly value: Json;
  readonly path: KeyPath;
}

/** Checks the texts of a step that are more than plain texts, as its kind says. */
function checkRoles(placed: PlacedStep, walk: Walk, isResolved: boolean): void {
  const body = { value: placed.body, path: placed.bodyPath };
  for (const [path, role] of Object.entries(placed.kind.texts))
    for (const each of follow(body, (role.key ?? path).split(".")))
      checkRole(role, each, placed.step, walk, isResolved);
}

function follow(from: Placed, [key, ...rest]: readonly string[]): Placed[] {
  if (key === undefined) return [from];
  const names = key === "*" && isJsonObject(from.value) ? Object.keys(from.value) : [key];
  return names.flatMap((name) => below(from, name).flatMap((each) => follow(each, rest)));
}

/** The value behind a key, if there is one. */
function below({ value, path }: Placed, key: string): Placed[] {
  const member = isJsonObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  return member === undefined ? [] : [{ value: member, path: [...path, key] }];
}

/** The entries of a list, or the only value. */
function items({ value, path }: Placed): Placed[] {
  if (!Array.isArray(value)) return [{ value, path }];
  return value.map((item: Json, index) => ({ value: item, path: [...path, index] }));
}

/** Places are checked only if all templates refer to something (`isResolved`): what refers to nothing is wrong anywhere. */
function checkRole(role: TextRole, at: Placed, step: Step, walk: Walk, isResolved: boolean): void {
  const { value, path } = at;
  const { files, locals, found } = walk;
  switch (role.role) {
    case "text": {
      if (typeof value !== "string") return;
      const resolve = (text: string): string | undefined => staticText(text, locals);
      const findPlace = role.place(step, { key: String(path.at(-1)), resolve });
      if (role.path !== undefined)
        checkPath({ text: value, path }, { files, wanted: role.path }, { found, locals });
      if (isResolved) checkPlaces({ text: value, path }, locals, { findPlace, found });
      return;
    }
    case "text expectation":
      for (const pattern of below(at, "matches").flatMap(items)) checkSyntax(pattern, textPattern, walk);
      return checkJson(below(at, "json").flatMap(items), walk);
    case "JSON expectations":
      return checkJson(items(at), walk);
    case "result expectation":
      return found.add(resultProblems(value, path));
    case "JSON":
    case "fixed":
    case "items":
    case "wanted":
      return;
    case "JSON Schema":
      found.add(schemaProblems(value, path));
      for (const text of textsIn(value, path))
        if (/^(?:pattern$|\$)/.test(String(text.path.at(-1))))
          checkPlaces(text, locals, { findPlace: inSchema, found });
  }
}

const inSchema = nowhere("in a pattern or a reference of a JSON Schema");

interface Syntax {
  /** Throws McpvalsError for what is not valid. */
  readonly compile: (text: string) => unknown;
  readonly findPlace: FindPlace;
}

const compilePath = (path: string): unknown => selectJson(null, path);
const jsonPath: Syntax = { compile: compilePath, findPlace: inJsonPath };
const ignoredPath: Syntax = { compile: compilePath, findPlace: inIgnoredPath };
const valuePattern: Syntax = { compile: compilePattern, findPlace: inPattern };
/** A JSON value must be a text to match, so only for a text it says nothing that a pattern is found everywhere. */
const textPattern: Syntax = { compile: compileTextPattern, findPlace: inPattern };

/** Checks a pattern or path; one with templates is only known when it runs. */
function checkSyntax({ value, path }: Placed, { compile, findPlace }: Syntax, { locals, found }: Walk): void {
  if (typeof value !== "string") return;
  const text = staticText(value, locals);
  if (text !== undefined && text.trim() !== "") found.attempt(path, () => compile(text));
  checkPlaces({ text: value, path }, locals, { findPlace, found });
}

function checkJson(expectations: readonly Placed[], walk: Walk): void {
  for (const expectation of expectations) {
    const ignored = below(expectation, "ignorePaths");
    const contains = below(expectation, "contains");
    for (const path of below(expectation, "path")) checkSyntax(path, jsonPath, walk);
    for (const path of ignored.flatMap(items)) checkSyntax(path, ignoredPath, walk);
    for (const pattern of below(expectation, "matches")) checkSyntax(pattern, valuePattern, walk);
    for (const { value, path } of contains)
      if (isContainedEverywhere(value))
        walk.found.add(emptyObjectProblem(path, "Leave it out, or write type: object."));
    // Paths that can be followed before any template is replaced.
    const paths = ignored.flatMap(items).flatMap(({ value }) => {
      const text = typeof value === "string" ? staticText(value, walk.locals) : undefined;
      return text !== undefined && new Findings().attempt([], () => compilePath(text)) ? [text] : [];
    });
    if ([...below(expectation, "equals"), ...contains].some(({ value }) => leavesNothing(value, paths)))
      walk.found.checksNothing(
        (ignored[0] ?? expectation).path,
        "leaves out all that is expected, so nothing would be compared",
        "Leave out only what differs every time.",
      );
  }
}

/** Checks the URL of an `http` step, as far as it is known before it runs. */
function checkAddress({ step, bodyPath }: PlacedStep, { locals, found }: Walk): void {
  const [first] = step.type === "http" ? partsOf(step.url, locals) : [];
  if (typeof first === "string" && !/^https?:\/\//i.test(first))
    found.refuse([...bodyPath, "url"], "must be a URL that starts with http:// or https://");
}

/** The names of the values from outside in a JSON value. */
function valuesIn(value: Json | undefined, locals: Locals): ReadonlySet<string> {
  return new Set(
    textsIn(value ?? null)
      .flatMap(({ text }) => expressionsIn(text, locals))
      .filter((expression) => isFromOutside(expression, locals))
      .map(({ root, names }) => [root, ...names].join(".")),
  );
}

/** A text with something plain in place of its templates. */
function withoutTemplates(text: string, locals: Locals): string {
  return partsOf(text, locals)
    .map((part) => (typeof part === "string" ? part : "x"))
    .join("");
}

/**
 * Refuses an `if` that would always hold because it is only a text: one with other operators than `==` and `!=`, without
 * spaces around them, or with quotes around a side.
 */
function checkCondition({ step, bodyPath }: PlacedStep, { locals, found }: Walk): void {
  const wrong = step.if === undefined ? undefined : wrongCondition(withoutTemplates(step.if, locals));
  if (wrong === undefined) return;
  found.refuse([...bodyPath, "if"], `is not a valid condition: ${wrong.what}`, { hint: wrong.hint });
}

const anyOperator = /===|!==|&&|\|\||<=|>=|==|!=|=|<|>/;
const spacedOperator = /(?:^|\s)(===|!==|&&|\|\||<=|>=|==|!=|=|<|>)(?=\s|$)/;

function wrongCondition(text: string): { readonly what: string; readonly hint: string } | undefined {
  if (/^\s*!(?!=)/.test(text)) return { what: "! is not an operator", hint: "Write A == false, or A != B." };
  const [, left, , right] = /^(.*?)\s(==|!=)\s(.*)$/s.exec(text) ?? [];
  const sides = left === undefined || right === undefined ? [text] : [left, right];
  const operator =
    sides.length === 1
      ? anyOperator.exec(text)?.[0]
      : sides.flatMap((side) => spacedOperator.exec(side)?.[1] ?? []).at(0);
  if (operator !== undefined) {
    const usual = "Write A == B or A != B, with spaces around the sign, or one text alone.";
    if (operator === "==" || operator === "!=")
      return { what: `${operator} stands between two texts, once and with spaces around it`, hint: usual };
    const nested = " For several conditions nest steps: a group with one, in it steps with another.";
    const isLogical = operator === "&&" || operator === "||";
    return { what: `${operator} is not an operator`, hint: isLogical ? usual + nested : usual };
  }
  if (!sides.some((side) => /^\s*(["'])[^]*\1\s*$/.test(side))) return undefined;
  return {
    what: "the quotes would be part of the text",
    hint: "Write texts without quotes: {steps.ID.outputs.NAME} == pod. Whether there is a text is asked by that text alone.",
  };
}

/** Refuses a verify phase without a check: its steps only do something, or their failures do not count. */
export function checkVerify(verify: readonly PlacedStep[]): Findings {
  const found = new Findings();
  if (!verify.some(isCheck))
    found.checksNothing(
      ["spec", "verify"],
      "checks nothing: none of its steps could fail",
      "A step that only does something, such as creating a file, checks nothing, nor does the command true; with continueOnError a failure does not count.",
    );
  return found;
}

function isCheck({ step, kind, inner }: PlacedStep): boolean {
  if (step.continueOnError === true) return false;
  return kind.checks(step, inner.steps.filter(isCheck).length);
}

/** What of a valid task may not do what its author expects, one sentence each, with lines and in the order of the file. */
export function taskNotes(source: TaskSource, checked: readonly PlacedNote[], locate: Locate): string[] {
  const found = new Findings();
  const steps = allSteps(source);
  const verify = [...walkPlaced(source.steps.verify)];
  noteNullArguments(source, locate, found);
  const notes = [...checked, ...source.extensions.notes, ...found.notes, ...verify.flatMap(slips)].map(
    ({ message, ...place }) => ({ message, line: locate({ ...place, at: "value" })?.line }),
  );
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

/** What is easily written in another way than it is meant. */
function slips({ step, body, bodyPath }: PlacedStep): PlacedNote[] {
  const { args, expect } = body;
  const argsPath = [...bodyPath, "args"];
  return [
    ...(step.type === "mcp" ? strayKeys(args, ["expect"], argsPath) : []),
    ...inexactNumbers(args, argsPath),
    ...inexactNumbers(expect, [...bodyPath, "expect"]),
  ];
}
