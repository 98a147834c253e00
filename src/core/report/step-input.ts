import { isJsonObject } from "../formats/json.ts";
import type { Json, JsonObject } from "../formats/model.ts";
import { previewJson } from "../formats/read-json.ts";
import { shownShellText } from "../templates/shell-line.ts";

const shownText = 200;

/** What a step works with, in one line: `GET http://…`, `$ command`; empty when there is nothing to say. */
export function describeInput(stepType: string, input: JsonObject): string {
  const line = describe(stepType, input) ?? restOf(input);
  return line.replaceAll(/\s*\n\s*/g, " ⏎ ").trim();
}

function describe(stepType: string, input: JsonObject): string | undefined {
  if ("if" in input && Object.keys(input).length === 1) return `if ${textOf(input["if"])}`;
  switch (stepType) {
    case "command":
      return "run" in input ? `$ ${shellTextOf(input["run"], input)}` : undefined;
    case "http":
      return "url" in input ? `${textOf(input["method"] ?? "GET")} ${textOf(input["url"])}` : undefined;
    case "file":
      return describeFile(input);
    case "script":
      return describeScript(input);
    case "mcp":
      return describeCall(input);
    case "extension":
      return `${textOf(input["extension"])}.${textOf(input["operation"])} ${valueOf(input["args"])}`;
    case "foreach":
      return "in" in input ? `${textOf(input["var"] ?? "item")} in ${valueOf(input["in"])}` : undefined;
    case "anyOf":
    case "allOf":
    case "not":
    case "group":
      return ""; // how many steps they have says nothing
    default:
      return undefined;
  }
}

function describeFile(input: JsonObject): string | undefined {
  const { path, action } = input;
  if (path === undefined) return undefined;
  const kind = isJsonObject(action) ? action["kind"] : action;
  return typeof kind === "string" ? `${kind} ${textOf(path)}` : textOf(path);
}

function describeScript(input: JsonObject): string | undefined {
  const source = isJsonObject(input["source"]) ? input["source"] : input;
  const { file, inline } = source;
  if (file !== undefined) return [file, ...listOf(input["args"])].map(textOf).join(" ");
  return inline === undefined ? undefined : shellTextOf(inline, input);
}

function shellTextOf(text: Json | undefined, { env }: JsonObject): string {
  return shownShellText(textOf(text), isJsonObject(env) ? env : {});
}

function describeCall(input: JsonObject): string | undefined {
  const { server, tool, uri, resource, prompt, args } = input;
  const where = server === undefined ? "" : `${textOf(server)}: `;
  if (tool !== undefined) return `${where}${textOf(tool)} ${valueOf(args ?? {})}`;
  const read = uri ?? resource;
  if (read !== undefined) return `${where}read ${textOf(read)}`;
  return prompt === undefined ? undefined : `${where}prompt ${textOf(prompt)} ${valueOf(args ?? {})}`;
}

/** The members in a row: `contains "ready"`. */
function restOf(input: JsonObject): string {
  return Object.entries(input)
    .map(([key, value]) => `${key} ${valueOf(value)}`)
    .join(", ");
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : valueOf(value);
}

function valueOf(value: Json | undefined): string {
  return value === undefined ? "" : previewJson(value, shownText);
}
