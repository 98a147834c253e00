import { McpvalsError } from "../../errors/error.ts";
import { compilePattern, isFoundInEveryText } from "../../templates/pattern.ts";
import { type FindPlace, inIgnoredPath, inJsonPath, inPattern } from "../../templates/places.ts";
import { selectJson } from "../../templates/select-json.ts";
import {
  emptyObjectProblem,
  ignoredProblems,
  isContainedEverywhere,
  schemaProblems,
} from "../cannot-fail.ts";
import { asObject, asText, formatKeyPath, isJsonObject, type KeyPath, valueAt } from "../json.ts";
import type { Json } from "../model.ts";
import type { Problem } from "../problem.ts";
import { isFromOutside, type Locals, partsOf, staticText } from "./check-text.ts";
import { checkPlaces } from "./check-untrusted.ts";
import type { PlacedNote } from "./task-options.ts";
import type { StepView } from "./view-steps.ts";

/** Checks the regular expressions and JSON paths in what a step expects; those with templates only when they run. */
export function checkExpectations({ kind, body, bodyPath }: StepView, locals: Locals): Problem[] {
  const expect = { value: valueAt(body, ["expect"]), path: [...bodyPath, "expect"] };
  const at = (...keys: string[]): Problem[] => inText(below(expect, keys), locals);
  switch (kind) {
    case "command":
      return [...at("stdout"), ...at("stderr")];
    case "http": {
      const names = Object.keys(asObject(valueAt(expect.value, ["headers"])));
      return [...names.flatMap((name) => at("headers", name)), ...at("body")];
    }
    case "file":
      return at();
    case "mcp":
    case "call":
      return [
        ...at("text"),
        ...inJson(below(expect, ["json"]), locals),
        ...inSchema(below(expect, ["schema"])),
      ];
    case "llm":
      return constantInput({ value: valueAt(body, ["input"]), path: [...bodyPath, "input"] }, locals);
    default:
      return [];
  }
}

/** A text without templates is the same whatever the agent does. */
function constantInput({ value, path }: Placed, locals: Locals): Problem[] {
  if (typeof value !== "string" || staticText(value, locals) === undefined) return [];
  const message = `${formatKeyPath(path)} is the same in every trial, so it says nothing of the agent`;
  const hint = 'Write "{agent.output}", or what an earlier step gave: "{steps.ID.outputs.NAME}".';
  return [{ code: "config/checks-nothing", message, path, at: "value", hint }];
}

function inText(expectation: Placed, locals: Locals): Problem[] {
  const patterns = each(below(expectation, ["matches"]));
  return [
    ...patterns.flatMap((pattern) => inRegex(pattern, locals, refuseEverywhere)),
    ...inJson(below(expectation, ["json"]), locals),
  ];
}

/** A JSON value must be a text to match, so that only of a text nothing is asked. */
function refuseEverywhere(pattern: string): void {
  if (!isFoundInEveryText(pattern)) return;
  throw new McpvalsError("config/checks-nothing", `${JSON.stringify(pattern)} is found in every text`, {
    hint: "Leave it out, or write what has to be there; .+ is found in all that is not empty.",
  });
}

function inSchema({ value, path }: Placed): Problem[] {
  return isJsonObject(value as Json) ? schemaProblems(value as Json, path) : [];
}

function inJson(expectations: Placed, locals: Locals): Problem[] {
  return each(expectations).flatMap((expectation) => [
    ...inPath(below(expectation, ["path"]), locals, inJsonPath),
    ...each(below(expectation, ["ignorePaths"])).flatMap((path) => inPath(path, locals, inIgnoredPath)),
    ...inRegex(below(expectation, ["matches"]), locals),
    ...comparesNothing(expectation, locals),
  ]);
}

/** A comparison of JSON that could not fail. */
function comparesNothing(expectation: Placed, locals: Locals): Problem[] {
  const contains = below(expectation, ["contains"]);
  const ignored = below(expectation, ["ignorePaths"]);
  const paths = each(ignored).flatMap(({ value }) => staticPath(value, locals));
  const expected = [below(expectation, ["equals"]), contains].filter(({ value }) => value !== undefined);
  return [
    ...(isContainedEverywhere(contains.value)
      ? [emptyObjectProblem(contains.path, "Leave it out, or write type: object.")]
      : []),
    ...expected.flatMap(({ value }) => ignoredProblems(value as Json, paths, ignored.path)).slice(0, 1),
  ];
}

/** A path that can be followed before any template is replaced. */
function staticPath(value: unknown, locals: Locals): readonly string[] {
  const text = typeof value === "string" ? staticText(value, locals) : undefined;
  if (text === undefined || text.trim() === "") return [];
  return inPath({ value, path: [] }, locals, inIgnoredPath).length === 0 ? [text] : [];
}

interface Placed {
  readonly value: unknown;
  readonly path: KeyPath;
}

function below({ value, path }: Placed, keys: KeyPath): Placed {
  return { value: valueAt(value, keys), path: [...path, ...keys] };
}

/** One value, or those of a list. */
function each({ value, path }: Placed): Placed[] {
  if (value === undefined) return [];
  return Array.isArray(value)
    ? value.map((item: unknown, index) => ({ value: item, path: [...path, index] }))
    : [{ value, path }];
}

function inRegex(
  pattern: Placed,
  locals: Locals,
  compile: (text: string) => unknown = compilePattern,
): Problem[] {
  return [...refusalOf(pattern, locals, compile), ...checkPlaces(textOf(pattern), locals, inPattern)];
}

function inPath(path: Placed, locals: Locals, findPlace: FindPlace): Problem[] {
  const places = checkPlaces(textOf(path), locals, findPlace);
  return [...refusalOf(path, locals, (text) => selectJson(null, text)), ...places];
}

function textOf({ value, path }: Placed): { readonly text: string | undefined; readonly path: KeyPath } {
  return { text: typeof value === "string" ? value : undefined, path };
}

function refusalOf({ value, path }: Placed, locals: Locals, compile: (text: string) => unknown): Problem[] {
  if (typeof value !== "string" || value.trim() === "") return [];
  const text = staticText(value, locals);
  if (text === undefined) return [];
  try {
    compile(text);
    return [];
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { code, message, details } = error;
    const hint = details.hint === undefined ? {} : { hint: details.hint };
    return [{ code, message: `${formatKeyPath(path)}: ${message}`, path, at: "value", ...hint }];
  }
}

export interface CheckedComparisons {
  readonly problems: readonly Problem[];
  readonly notes: readonly PlacedNote[];
}

/**
 * Refuses checks that compare a value from outside with itself, and notes those that could: where a step is given what the
 * agent said, whatever only repeats that satisfies a check for it.
 */
export function checkComparisons(view: StepView, locals: Locals): CheckedComparisons {
  const { problems, notes } = comparisonsOf(view, locals);
  return { problems, notes: [...notes, ...agentsNotes(view, locals)] };
}

function comparisonsOf(view: StepView, locals: Locals): CheckedComparisons {
  const body = asObject(view.body);
  switch (view.kind) {
    case "llm":
      return { problems: judgedByItself(view, locals), notes: [] };
    case "command":
      return checkRepeated(view, { given: [body["run"], body["stdin"]], locals });
    case "http":
      return checkRepeated(view, { given: [body["url"], body["body"]], locals });
    case "mcp":
    case "call":
      return checkRepeated(view, { given: [body["args"], body["resource"]], locals });
    default:
      return { problems: [], notes: [] };
  }
}

/** Notes on what is left to the agent: whether a step is run at all, and what a text has to contain. */
function agentsNotes({ path, body, bodyPath }: StepView, locals: Locals): PlacedNote[] {
  const { if: condition, expect } = asObject(body);
  const isCheck = path[1] === "verify" && saysAgent(condition, locals);
  const skipped = `${formatKeyPath([...bodyPath, "if"])}: what the agent says decides whether this is checked`;
  return [
    ...(isCheck ? [{ message: skipped, path: [...bodyPath, "if"] }] : []),
    ...wantedIn(expect, [...bodyPath, "expect"])
      .filter(({ value }) => saysAgent(value, locals))
      .map((wanted) => ({
        message: `${formatKeyPath(wanted.path)}: the agent says what has to be there; an answer of one letter is in nearly every text`,
        path: wanted.path,
      })),
  ];
}

/** Every `contains` and `matches` of an expectation. */
function wantedIn(value: unknown, path: KeyPath): { readonly value: unknown; readonly path: KeyPath }[] {
  if (typeof value !== "object" || value === null) return [];
  const members = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return members.flatMap(([key, member]: [string | number, unknown]) =>
    key === "contains" || key === "matches"
      ? [{ value: member, path: [...path, key] }]
      : wantedIn(member, [...path, key]),
  );
}

function saysAgent(value: unknown, locals: Locals): boolean {
  return [...valuesIn(value, locals)].some((name) => name.startsWith("agent."));
}

function judgedByItself({ body, bodyPath }: StepView, locals: Locals): Problem[] {
  const input = asObject(body)["input"] ?? "{agent.output}";
  const judged = valuesIn(input, locals);
  return ["contains", "exact", "rubric"].flatMap((key): Problem[] => {
    const reference = asText(asObject(body)[key]) ?? "";
    const same = [...valuesIn(reference, locals)].find((value) => judged.has(value));
    if (same === undefined) return [];
    const path = [...bodyPath, key];
    const message = `${formatKeyPath(path)}: the judge would compare {${same}} with itself`;
    return [{ code: "config/checks-nothing", message, path, at: "value", hint: ownWords }];
  });
}

const ownWords = "Write what the text has to say in your own words, or as an earlier step gave it.";

interface Repeated {
  /** What the step is given. */
  readonly given: readonly unknown[];
  readonly locals: Locals;
}

function checkRepeated(view: StepView, { given, locals }: Repeated): CheckedComparisons {
  const values = new Set(given.flatMap((each) => [...valuesIn(each, locals)]));
  const path = [...view.bodyPath, "expect"];
  const same = [...valuesIn(asObject(view.body)["expect"], locals)].find((value) => values.has(value));
  if (same === undefined) return { problems: [], notes: [] };
  const told = `${formatKeyPath(path)} asks for {${same}}, which the step is given`;
  if (isEcho(view, locals)) {
    const message = `${told} and only repeats`;
    return {
      problems: [{ code: "config/checks-nothing", message, path, at: "value", hint: ownWords }],
      notes: [],
    };
  }
  if (!same.startsWith("agent.")) return { problems: [], notes: [] };
  return { problems: [], notes: [{ message: `${told}: what only repeats it would pass`, path }] };
}

/** Whether a step does nothing but write what it is given. */
function isEcho({ kind, body }: StepView, locals: Locals): boolean {
  const run = kind === "command" ? asText(asObject(body)["run"]) : undefined;
  const literal = partsOf(run ?? "", locals).map((part) => (typeof part === "string" ? part : "x"));
  return /^\s*(?:echo|printf|cat)\b[^|&;<>\n`$]*$/.test(literal.join(""));
}

/** What the expressions in a value stand for, without filters, if it comes from outside. */
function valuesIn(value: unknown, locals: Locals): ReadonlySet<string> {
  if (typeof value === "string") {
    const names = partsOf(value, locals).flatMap((part) =>
      typeof part === "object" && isFromOutside(part, locals) ? [[part.root, ...part.names].join(".")] : [],
    );
    return new Set(names);
  }
  if (typeof value !== "object" || value === null) return new Set();
  return new Set(Object.values(value).flatMap((member) => [...valuesIn(member, locals)]));
}

/**
 * Refuses an `if` that would always hold because it is no condition of ours, but a text: one with other operators than
 * `==` and `!=`, without spaces around them, or with quotes around a side.
 */
export function checkCondition({ body, bodyPath, isShort }: StepView, locals: Locals): Problem[] {
  const condition = isShort ? undefined : asText(asObject(body)["if"]);
  const wrong = condition === undefined ? undefined : wrongIn(condition, locals);
  if (wrong === undefined) return [];
  const path = [...bodyPath, "if"];
  const message = `${formatKeyPath(path)} is no condition: ${wrong.what}`;
  return [{ code: "config/invalid-value", message, path, at: "value", hint: wrong.hint }];
}

interface Wrong {
  readonly what: string;
  readonly hint: string;
}

const usual = "Write A == B or A != B, with spaces around the sign, or one text alone.";
const anyOperator = /===|!==|&&|\|\||<=|>=|==|!=|=|<|>/;
const spacedOperator = /(?:^|\s)(===|!==|&&|\|\||<=|>=|==|!=|=|<|>)(?=\s|$)/;

function wrongIn(condition: string, locals: Locals): Wrong | undefined {
  // What templates give is not looked at.
  const text = partsOf(condition, locals)
    .map((part) => (typeof part === "string" ? part : "x"))
    .join("");
  if (/^\s*!(?!=)/.test(text)) return { what: "! is no operator", hint: "Write A == false, or A != B." };
  const [, left, , right] = /^(.*?)\s(==|!=)\s(.*)$/s.exec(text) ?? [];
  const sides = left === undefined || right === undefined ? [text] : [left, right];
  const operator =
    sides.length === 1
      ? anyOperator.exec(text)?.[0]
      : sides.flatMap((side) => spacedOperator.exec(side)?.[1] ?? []).at(0);
  if (operator !== undefined) return wrongOperator(operator);
  const isQuoted = sides.some((side) => /^\s*(["'])[^]*\1\s*$/.test(side));
  return isQuoted ? { what: "the quotes would be part of the text", hint: quotes } : undefined;
}

const quotes =
  "Write texts without quotes: {steps.ID.outputs.NAME} == pod. Whether there is a text is asked by that text alone.";

function wrongOperator(operator: string): Wrong {
  switch (operator) {
    case "==":
    case "!=":
      return { what: `${operator} stands between two texts, once and with spaces around it`, hint: usual };
    case "&&":
    case "||":
      return {
        what: `${operator} is no operator`,
        hint: `${usual} For several conditions nest steps: a group with one, in it steps with another.`,
      };
    default:
      return { what: `${operator} is no operator`, hint: usual };
  }
}
