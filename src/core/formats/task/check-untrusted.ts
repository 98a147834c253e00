import { McpvalsError } from "../../errors/error.ts";
import {
  type FindPlace,
  inBody,
  inFilePath,
  inProgramName,
  inProgramText,
  inRubric,
  inUrl,
  inVariable,
  nowhere,
} from "../../templates/places.ts";
import { isShell, placeInShell, scriptProgram, type ShellValue } from "../../templates/shell-line.ts";
import { asObject, asText, formatKeyPath, type KeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import { isFromOutside, type Locals, partsOf } from "./check-text.ts";
import type { PlacedNote } from "./task-options.ts";
import type { StepView } from "./view-steps.ts";

/** How values from outside are written in a text. */
type Writing = FindPlace | "shell";

/**
 * Checks where a step uses values from outside, which are those of an agent, a server or a program: they may stand only
 * where they stay a text, unless they are asked for as they are. What a step expects is checked by `checkExpectations`.
 */
export function checkUntrusted({ kind, body, bodyPath }: StepView, locals: Locals): Problem[] {
  const given = asObject(body);
  const at = (key: string, writing: Writing): Problem[] =>
    checkPlaces({ text: asText(given[key]), path: [...bodyPath, key] }, locals, writing);
  const env = (): Problem[] => checkVariables(given["env"], [...bodyPath, "env"], locals);
  switch (kind) {
    case "command": {
      const shell = asText(given["shell"]);
      const isOther = shell !== undefined && isStatic(shell, locals) && !isShell(shell);
      return [
        ...at("run", isOther ? inProgramText(shell) : "shell"),
        ...at("shell", inProgramName),
        ...at("workdir", inFilePath),
        ...env(),
      ];
    }
    case "script": {
      const program = scriptProgram(asText(given["inline"]) ?? "");
      const isOther = program !== undefined && !isShell(program);
      return [
        ...at("file", inProgramName),
        ...at("inline", isOther ? inProgramText(program) : "shell"),
        ...env(),
      ];
    }
    case "http":
      return [
        ...at("method", nowhere("where the method of a request is named")),
        ...at("url", inUrl),
        ...at("body", inBody(asText(given["body"]) ?? "", textsOf(given["headers"]))),
      ];
    case "file":
      return at("path", inFilePath);
    case "llm":
      return at("rubric", inRubric);
    case "mcp":
    case "call": {
      const schema = asObject(given["expect"])["schema"];
      return [
        ...at("server", nowhere("where a server is named")),
        ...at("tool", nowhere("where a tool is named")),
        ...checkSchema(schema, [...bodyPath, "expect", "schema"], locals),
      ];
    }
    default:
      return [];
  }
}

interface PlacedText {
  readonly text: string | undefined;
  readonly path: KeyPath;
}

/** What is wrong with the values from outside in one text: the first that cannot be written where it stands. */
export function checkPlaces({ text, path }: PlacedText, locals: Locals, writing: Writing): Problem[] {
  if (text?.includes("{") !== true) return [];
  const parts = partsOf(text, locals).map((part, index) => {
    if (typeof part === "string") return part;
    if (isFromOutside(part, locals) && part.filter?.kind !== "raw") return { expression: part.text };
    // Something that fits into any text, also where an address begins.
    return index === 0 ? "http://x" : "x";
  });
  try {
    if (writing === "shell") placeInShell(parts);
    else tryOut(parts, writing);
    return [];
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { code, message, details } = error;
    const hint = details.hint === undefined ? {} : { hint: details.hint };
    return [{ code, message: `${formatKeyPath(path)}: ${message}`, path, at: "value", ...hint }];
  }
}

function tryOut(parts: readonly (string | ShellValue)[], findPlace: FindPlace): void {
  let written = "";
  for (const part of parts)
    written += typeof part === "string" ? part : findPlace(written, part.expression).sample;
}

function isStatic(text: string, locals: Locals): boolean {
  return partsOf(text, locals).every((part) => typeof part === "string");
}

function checkVariables(env: unknown, path: KeyPath, locals: Locals): Problem[] {
  return Object.entries(textsOf(env)).flatMap(([name, text]) =>
    checkPlaces({ text, path: [...path, name] }, locals, inVariable(name)),
  );
}

function textsOf(record: unknown): Readonly<Record<string, string>> {
  const entries = Object.entries(asObject(record));
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}

const inSchema = nowhere("in a pattern or a reference of a JSON Schema");

/** Patterns and references of a schema; anything else in it is data. */
function checkSchema(value: unknown, path: KeyPath, locals: Locals): Problem[] {
  if (typeof value === "string") {
    const key = String(path.at(-1));
    return key === "pattern" || key.startsWith("$")
      ? checkPlaces({ text: value, path }, locals, inSchema)
      : [];
  }
  if (typeof value !== "object" || value === null) return [];
  const members = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return members.flatMap(([key, member]) => checkSchema(member, [...path, key], locals));
}

/** Notes on values from outside that are inserted as they are. */
export function rawNotes(text: string, path: KeyPath, locals: Locals): PlacedNote[] {
  return partsOf(text, locals).flatMap((part) => {
    if (typeof part === "string" || part.filter?.kind !== "raw" || !isFromOutside(part, locals)) return [];
    const message = `${formatKeyPath(path)}: ${part.text} inserts a value from outside as it is, so that it can act as code, as a pattern or as a path`;
    return [{ message, path, text: part.text }];
  });
}

/** Names of arguments that hold programs, whatever the extension is. */
const programArguments = /^(?:sql|query|code|script|command|expression|filter)$/i;

/** Notes on values from outside in the programs that an extension is given: only the extension knows how to quote them. */
export function argumentNotes({ kind, body, bodyPath }: StepView, locals: Locals): PlacedNote[] {
  if (kind !== "extension" && kind !== "operation") return [];
  const [args, path] =
    kind === "extension" ? [asObject(body)["args"], [...bodyPath, "args"]] : [body, [...bodyPath]];
  return Object.entries(textsOf(args)).flatMap(([name, text]) => {
    const part = partsOf(text, locals).find(
      (each) => typeof each === "object" && isFromOutside(each, locals),
    );
    if (!programArguments.test(name) || typeof part !== "object") return [];
    const at = [...path, name];
    const message = `${formatKeyPath(at)}: ${part.text} becomes a part of what the extension runs; give it as a parameter if the operation takes some, as params of mcpvals:sql`;
    return [{ message, path: at, text: part.text }];
  });
}
