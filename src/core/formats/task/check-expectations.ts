import { McpvalsError } from "../../errors/error.ts";
import {
  emptyObjectProblem,
  ignoredProblems,
  isContainedEverywhere,
  schemaProblems,
} from "../cannot-fail.ts";
import { compilePattern, isFoundInEveryText } from "../../templates/pattern.ts";
import { type FindPlace, inIgnoredPath, inJsonPath, inPattern } from "../../templates/places.ts";
import { selectJson } from "../../templates/select-json.ts";
import { formatKeyPath, isJsonObject, type KeyPath, valueAt } from "../json.ts";
import { asObject } from "../lenient.ts";
import type { Json } from "../model.ts";
import type { Problem } from "../problem.ts";
import { staticText } from "./check-text.ts";
import { checkPlaces } from "./check-untrusted.ts";
import type { Locals } from "./template-names.ts";
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
