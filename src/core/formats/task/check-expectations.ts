import { McpvalsError } from "../../errors/error.ts";
import { compilePattern } from "../../templates/pattern.ts";
import { selectJson } from "../../templates/select-json.ts";
import { formatKeyPath, type KeyPath, valueAt } from "../key-path.ts";
import { asObject } from "../lenient.ts";
import type { Problem } from "../problem.ts";
import { staticText } from "./check-text.ts";
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
      return [...at("text"), ...inJson(below(expect, ["json"]), locals)];
    default:
      return [];
  }
}

function inText(expectation: Placed, locals: Locals): Problem[] {
  const patterns = each(below(expectation, ["matches"]));
  return [
    ...patterns.flatMap((pattern) => inPattern(pattern, locals)),
    ...inJson(below(expectation, ["json"]), locals),
  ];
}

function inJson(expectations: Placed, locals: Locals): Problem[] {
  return each(expectations).flatMap((expectation) => [
    ...inPath(below(expectation, ["path"]), locals),
    ...each(below(expectation, ["ignorePaths"])).flatMap((path) => inPath(path, locals)),
    ...inPattern(below(expectation, ["matches"]), locals),
  ]);
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

function inPattern(pattern: Placed, locals: Locals): Problem[] {
  return refusalOf(pattern, locals, compilePattern);
}

function inPath(path: Placed, locals: Locals): Problem[] {
  return refusalOf(path, locals, (text) => selectJson(null, text));
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
