import { McpvalsError } from "../../errors/error.ts";
import { compilePattern, isFoundInEveryText } from "../../templates/pattern.ts";
import { type FindPlace, inIgnoredPath, inJsonPath, inPattern, nowhere } from "../../templates/places.ts";
import { selectJson } from "../../templates/select-json.ts";
import {
  emptyObjectProblem,
  ignoredProblems,
  isContainedEverywhere,
  schemaProblems,
} from "../cannot-fail.ts";
import { formatKeyPath, isJsonObject, type Json, type KeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import type { TextRole } from "../step-kinds.ts";
import type { LlmStep } from "../step.ts";
import { checkPath } from "./check-paths.ts";
import { checkPlaces, isFromOutside, type Locals, partsOf, problemsOf, staticText } from "./check-text.ts";
import type { PlacedStep } from "./read-task.ts";
import type { Findings, PlacedNote, TaskFiles } from "./task-options.ts";

interface StepContext {
  readonly files: TaskFiles;
  readonly locals: Locals;
  /** Whether its templates refer to something. Places are only checked then: what refers to nothing is wrong anywhere. */
  readonly isResolved: boolean;
}

/** Checks what can be known of a step by itself before it runs: paths, patterns, addresses, comparisons, its condition. */
export function checkStep(placed: PlacedStep, context: StepContext): Findings {
  const { locals } = context;
  const compared = checkComparisons(placed, locals);
  return {
    problems: [
      ...rolesOf(placed).flatMap((part) => checkRole(part, placed, context)),
      ...checkAddress(placed, locals),
      ...checkCondition(placed, locals),
      ...compared.problems,
    ],
    notes: [...compared.notes, ...agentNotes(placed, locals), ...argumentNotes(placed, locals)],
  };
}

interface Placed {
  readonly value: Json;
  readonly path: KeyPath;
}

/** The texts of a step that are more than plain texts, as its kind says. */
function rolesOf({ kind, body, bodyPath }: PlacedStep): (Placed & { readonly role: TextRole })[] {
  return Object.entries(kind.texts).flatMap(([keys, role]) =>
    follow({ value: body, path: bodyPath }, keys.split(".")).map((each) => ({ ...each, role })),
  );
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

/** The value behind a key, or those of a list there. */
function each(from: Placed, key: string): Placed[] {
  return below(from, key).flatMap(items);
}

function items({ value, path }: Placed): Placed[] {
  return Array.isArray(value)
    ? value.map((item: Json, index) => ({ value: item, path: [...path, index] }))
    : [{ value, path }];
}

function checkRole(
  { role, value, path }: Placed & { readonly role: TextRole },
  { step }: PlacedStep,
  { files, locals, isResolved }: StepContext,
): Problem[] {
  switch (role.role) {
    case "text": {
      if (typeof value !== "string") return [];
      const isStatic = (text: string): boolean => staticText(text, locals) !== undefined;
      // The fields of the step are those of its kind.
      const place = role.place(step, { key: String(path.at(-1)), isStatic });
      const wanted = role.path;
      return [
        ...(wanted === undefined ? [] : checkPath({ text: value, path }, { files, wanted }, locals)),
        ...(isResolved ? checkPlaces({ text: value, path }, locals, place) : []),
      ];
    }
    case "judged text":
      return constantText(value, path, locals);
    case "text expectation":
      return inText({ value, path }, locals);
    case "JSON expectations":
      return inJson(items({ value, path }), locals);
    case "JSON Schema":
      return [...schemaProblems(value, path), ...checkSchema({ value, path }, locals)];
  }
}

/** A text without templates is the same whatever the agent does. */
function constantText(value: Json, path: KeyPath, locals: Locals): Problem[] {
  if (typeof value !== "string" || staticText(value, locals) === undefined) return [];
  const message = `${formatKeyPath(path)} is the same in every trial, so it says nothing of the agent`;
  const hint = 'Write "{agent.output}", or what an earlier step gave: "{steps.ID.outputs.NAME}".';
  return [{ code: "config/checks-nothing", message, path, at: "value", hint }];
}

function inText(expectation: Placed, locals: Locals): Problem[] {
  return [
    ...each(expectation, "matches").flatMap((pattern) => inRegex(pattern, locals, refuseEverywhere)),
    ...inJson(each(expectation, "json"), locals),
  ];
}

/** A JSON value must be a text to match, so only of a text this says nothing. */
function refuseEverywhere(pattern: string): void {
  if (!isFoundInEveryText(pattern)) return;
  throw new McpvalsError("config/checks-nothing", `${JSON.stringify(pattern)} is found in every text`, {
    hint: "Leave it out, or write what has to be there; .+ is found in all that is not empty.",
  });
}

function inJson(expectations: readonly Placed[], locals: Locals): Problem[] {
  return expectations.flatMap((expectation) => [
    ...below(expectation, "path").flatMap((path) => inPath(path, locals, inJsonPath)),
    ...each(expectation, "ignorePaths").flatMap((path) => inPath(path, locals, inIgnoredPath)),
    ...below(expectation, "matches").flatMap((pattern) => inRegex(pattern, locals)),
    ...comparesNothing(expectation, locals),
  ]);
}

/** A comparison of JSON that could not fail. */
function comparesNothing(expectation: Placed, locals: Locals): Problem[] {
  const contains = below(expectation, "contains");
  const ignored = below(expectation, "ignorePaths").map(({ path }) => path)[0] ?? expectation.path;
  // Paths that can be followed before any template is replaced.
  const paths = each(expectation, "ignorePaths").flatMap(({ value }) => {
    const text = typeof value === "string" ? staticText(value, locals) : undefined;
    return text !== undefined && problemsOf([], () => compilePath(text)).length === 0 ? [text] : [];
  });
  return [
    ...contains
      .filter(({ value }) => isContainedEverywhere(value))
      .map(({ path }) => emptyObjectProblem(path, "Leave it out, or write type: object.")),
    ...[...below(expectation, "equals"), ...contains]
      .flatMap(({ value }) => ignoredProblems(value, paths, ignored))
      .slice(0, 1),
  ];
}

function inRegex(
  pattern: Placed,
  locals: Locals,
  compile: (text: string) => unknown = compilePattern,
): Problem[] {
  return [...malformed(pattern, locals, compile), ...placeProblems(pattern, locals, inPattern)];
}

function inPath(path: Placed, locals: Locals, findPlace: FindPlace): Problem[] {
  return [...malformed(path, locals, compilePath), ...placeProblems(path, locals, findPlace)];
}

function compilePath(path: string): unknown {
  return selectJson(null, path);
}

function placeProblems({ value, path }: Placed, locals: Locals, findPlace: FindPlace): Problem[] {
  return typeof value === "string" ? checkPlaces({ text: value, path }, locals, findPlace) : [];
}

/** Refuses a pattern or path that is not valid; one with templates is only known when it runs. */
function malformed({ value, path }: Placed, locals: Locals, compile: (text: string) => unknown): Problem[] {
  const text = typeof value === "string" ? staticText(value, locals) : undefined;
  return text === undefined || text.trim() === "" ? [] : problemsOf(path, () => void compile(text));
}

const inSchema = nowhere("in a pattern or a reference of a JSON Schema");

/** Patterns and references of a schema; anything else in it is data. */
function checkSchema({ value, path }: Placed, locals: Locals): Problem[] {
  if (typeof value === "string") {
    const key = String(path.at(-1));
    const isCode = key === "pattern" || key.startsWith("$");
    return isCode ? checkPlaces({ text: value, path }, locals, inSchema) : [];
  }
  return membersOf({ value, path }).flatMap((member) => checkSchema(member, locals));
}

function membersOf({ value, path }: Placed): Placed[] {
  if (typeof value !== "object" || value === null) return [];
  const members: Iterable<[string | number, Json]> = Array.isArray(value)
    ? value.entries()
    : Object.entries(value);
  return [...members].map(([key, member]) => ({ value: member, path: [...path, key] }));
}

/** Checks that the address of an `http` step is one, as far as that is known before it runs. */
function checkAddress({ step, bodyPath }: PlacedStep, locals: Locals): Problem[] {
  const [first] = step.type === "http" ? partsOf(step.url, locals) : [];
  if (typeof first !== "string" || /^https?:\/\//i.test(first)) return [];
  const path = [...bodyPath, "url"];
  const message = `${formatKeyPath(path)} must be a URL that starts with http:// or https://`;
  return [{ code: "config/invalid-value", message, path, at: "value" }];
}

/** Names of arguments that hold programs, whatever the extension is. */
const programArguments = /^(?:sql|query|code|script|command|expression|filter)$/i;

/** Notes on values from outside in the programs that an extension is given: only the extension knows how to quote them. */
function argumentNotes({ step, bodyPath }: PlacedStep, locals: Locals): PlacedNote[] {
  if (step.type !== "extension") return [];
  const isLong = bodyPath.at(-1) === "extension";
  return Object.entries(step.args).flatMap(([name, text]) => {
    if (typeof text !== "string" || !programArguments.test(name)) return [];
    const part = partsOf(text, locals).find(
      (piece) => typeof piece === "object" && isFromOutside(piece, locals),
    );
    if (typeof part !== "object") return [];
    const path = [...bodyPath, ...(isLong ? ["args"] : []), name];
    const message = `${formatKeyPath(path)}: ${part.text} becomes a part of what the extension runs; give it as a parameter if the operation takes some, as params of mcpvals:sql`;
    return [{ message, path, text: part.text }];
  });
}

/**
 * Refuses checks that compare a value from outside with itself, and notes those that could: where a step is given what the
 * agent said, whatever only repeats that would pass.
 */
function checkComparisons({ step, kind, body, bodyPath }: PlacedStep, locals: Locals): Findings {
  if (step.type === "llm") return { problems: judgedByItself(step, bodyPath, locals), notes: [] };
  const given = new Set((kind.given ?? []).flatMap((key) => [...valuesIn(body[key], locals)]));
  const same = [...valuesIn(body["expect"], locals)].find((value) => given.has(value));
  if (same === undefined) return { problems: [], notes: [] };
  const path = [...bodyPath, "expect"];
  const message = `${formatKeyPath(path)} asks for {${same}}, which the step is given`;
  if (step.type === "command" && isEcho(step.run, locals)) {
    const problem = { message: `${message} and only repeats`, path, at: "value", hint: ownWords } as const;
    return { problems: [{ code: "config/checks-nothing", ...problem }], notes: [] };
  }
  const isAgents = same.startsWith("agent.");
  return {
    problems: [],
    notes: isAgents ? [{ message: `${message}: what only repeats it would pass`, path }] : [],
  };
}

const ownWords = "Write what the text has to say in your own words, or as an earlier step gave it.";

function judgedByItself(step: LlmStep, bodyPath: KeyPath, locals: Locals): Problem[] {
  const judged = valuesIn(step.input ?? "{agent.output}", locals);
  return (["contains", "exact", "rubric"] as const).flatMap((key): Problem[] => {
    const same = [...valuesIn(step[key], locals)].find((value) => judged.has(value));
    if (same === undefined) return [];
    const path = [...bodyPath, key];
    const message = `${formatKeyPath(path)}: the judge would compare {${same}} with itself`;
    return [{ code: "config/checks-nothing", message, path, at: "value", hint: ownWords }];
  });
}

/** Whether a line does nothing but write what it is given. */
function isEcho(run: string, locals: Locals): boolean {
  return /^\s*(?:echo|printf|cat)\b[^|&;<>\n`$]*$/.test(withoutTemplates(run, locals));
}

/** A text with something plain in place of its templates. */
function withoutTemplates(text: string, locals: Locals): string {
  return partsOf(text, locals)
    .map((part) => (typeof part === "string" ? part : "x"))
    .join("");
}

/** Notes on what is left to the agent: whether a step is run at all, and what a text has to contain. */
function agentNotes({ step, path, body, bodyPath }: PlacedStep, locals: Locals): PlacedNote[] {
  const isAgents = (value: Json | undefined): boolean =>
    [...valuesIn(value, locals)].some((name) => name.startsWith("agent."));
  const at = [...bodyPath, "if"];
  const skipped = `${formatKeyPath(at)}: what the agent says decides whether this is checked`;
  return [
    ...(path[1] === "verify" && isAgents(step.if) ? [{ message: skipped, path: at }] : []),
    ...wantedIn({ value: body["expect"] ?? null, path: [...bodyPath, "expect"] })
      .filter(({ value }) => isAgents(value))
      .map((wanted) => ({
        message: `${formatKeyPath(wanted.path)}: the agent says what has to be there; an answer of one letter is in nearly every text`,
        path: wanted.path,
      })),
  ];
}

/** Every `contains` and `matches` of an expectation. */
function wantedIn(from: Placed): Placed[] {
  return membersOf(from).flatMap((member) => {
    const key = member.path.at(-1);
    return key === "contains" || key === "matches" ? [member] : wantedIn(member);
  });
}

/** What the expressions in a value stand for, without filters, if it comes from outside. */
function valuesIn(value: Json | undefined, locals: Locals): ReadonlySet<string> {
  if (typeof value === "string") {
    const names = partsOf(value, locals).flatMap((part) =>
      typeof part === "object" && isFromOutside(part, locals) ? [[part.root, ...part.names].join(".")] : [],
    );
    return new Set(names);
  }
  if (typeof value !== "object" || value === null) return new Set();
  return new Set(Object.values(value).flatMap((member: Json) => [...valuesIn(member, locals)]));
}

/**
 * Refuses an `if` that would always hold because it is only a text: one with other operators than `==` and `!=`, without
 * spaces around them, or with quotes around a side.
 */
function checkCondition({ step, bodyPath }: PlacedStep, locals: Locals): Problem[] {
  const wrong = step.if === undefined ? undefined : wrongIn(withoutTemplates(step.if, locals));
  if (wrong === undefined) return [];
  const path = [...bodyPath, "if"];
  const message = `${formatKeyPath(path)} is not a valid condition: ${wrong.what}`;
  return [{ code: "config/invalid-value", message, path, at: "value", hint: wrong.hint }];
}

interface WrongCondition {
  readonly what: string;
  readonly hint: string;
}

const anyOperator = /===|!==|&&|\|\||<=|>=|==|!=|=|<|>/;
const spacedOperator = /(?:^|\s)(===|!==|&&|\|\||<=|>=|==|!=|=|<|>)(?=\s|$)/;

function wrongIn(text: string): WrongCondition | undefined {
  if (/^\s*!(?!=)/.test(text)) return { what: "! is not an operator", hint: "Write A == false, or A != B." };
  const [, left, , right] = /^(.*?)\s(==|!=)\s(.*)$/s.exec(text) ?? [];
  const sides = left === undefined || right === undefined ? [text] : [left, right];
  const operator =
    sides.length === 1
      ? anyOperator.exec(text)?.[0]
      : sides.flatMap((side) => spacedOperator.exec(side)?.[1] ?? []).at(0);
  if (operator !== undefined) return wrongOperator(operator);
  const isQuoted = sides.some((side) => /^\s*(["'])[^]*\1\s*$/.test(side));
  return isQuoted ? { what: "the quotes would be part of the text", hint: withoutQuotes } : undefined;
}

const withoutQuotes =
  "Write texts without quotes: {steps.ID.outputs.NAME} == pod. Whether there is a text is asked by that text alone.";

function wrongOperator(operator: string): WrongCondition {
  const usual = "Write A == B or A != B, with spaces around the sign, or one text alone.";
  if (operator === "==" || operator === "!=")
    return { what: `${operator} stands between two texts, once and with spaces around it`, hint: usual };
  const isLogical = operator === "&&" || operator === "||";
  const nested = " For several conditions nest steps: a group with one, in it steps with another.";
  return { what: `${operator} is not an operator`, hint: isLogical ? usual + nested : usual };
}
