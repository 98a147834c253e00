import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject, MockDefinition } from "../../core/formats/model.ts";

/** What a request is answered with: a result, or a JSON-RPC error. */
export type MockResult =
  | { readonly kind: "result"; readonly result: JsonObject }
  | { readonly kind: "error"; readonly code: number; readonly message: string; readonly data?: Json };

/** JSON-RPC's and MCP's codes for what can be wrong with a request. */
export const codes = {
  parse: -32700,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  resourceNotFound: -32002,
  unsupportedVersion: -32022,
} as const;

/** What the server says that it can do. */
export function capabilitiesOf({ tools, resources, prompts }: MockDefinition): JsonObject {
  return {
    logging: {},
    ...(Object.keys(tools).length === 0 ? {} : { tools: {} }),
    ...(resources.length === 0 ? {} : { resources: {} }),
    ...(prompts.length === 0 ? {} : { prompts: {} }),
  };
}

export function listTools({ tools }: MockDefinition): JsonObject {
  const listed = Object.entries(tools).map(([name, { description, inputSchema, outputSchema }]) => ({
    name,
    ...(description === undefined ? {} : { description }),
    inputSchema,
    ...(outputSchema === undefined ? {} : { outputSchema }),
  }));
  return { tools: listed };
}

export function listResources({ resources }: MockDefinition): JsonObject {
  const listed = resources.map(({ uri, name, description, mimeType }) => ({
    uri,
    name,
    ...(description === undefined ? {} : { description }),
    ...(mimeType === undefined ? {} : { mimeType }),
  }));
  return { resources: listed };
}

/** A resource that is not there has one code in 2026-07-28 and another one before. */
export function readResource(
  { resources }: MockDefinition,
  { uri }: JsonObject,
  { isModern }: { readonly isModern: boolean },
): MockResult {
  if (typeof uri !== "string") return invalid("uri is not a text");
  const found = resources.find((resource) => resource.uri === uri);
  if (found !== undefined) {
    const { mimeType, text } = found;
    const contents = [{ uri, ...(mimeType === undefined ? {} : { mimeType }), text }];
    return { kind: "result", result: { contents } };
  }
  const code = isModern ? codes.invalidParams : codes.resourceNotFound;
  return { kind: "error", code, message: `Resource not found: ${uri}`, data: { uri } };
}

export function listPrompts({ prompts }: MockDefinition): JsonObject {
  const listed = prompts.map(({ name, description, arguments: args }) => ({
    name,
    ...(description === undefined ? {} : { description }),
    arguments: args,
  }));
  return { prompts: listed };
}

export function getPrompt({ prompts }: MockDefinition, params: JsonObject): MockResult {
  const { name } = params;
  const prompt = prompts.find((each) => each.name === name);
  if (prompt === undefined)
    return invalid(`Unknown prompt: ${typeof name === "string" ? name : "(no name)"}`);
  const given = isJsonObject(params["arguments"]) ? params["arguments"] : {};
  const values = new Map<string, string>();
  for (const argument of prompt.arguments) {
    const value = Object.hasOwn(given, argument.name) ? given[argument.name] : undefined;
    if (value === undefined && argument.required) return invalid(`Missing argument: ${argument.name}`);
    values.set(argument.name, value === undefined ? "" : textOf(value));
  }
  const { description } = prompt;
  const messages = prompt.messages.map(({ role, text }) => ({
    role,
    content: { type: "text", text: fillIn(text, values) },
  }));
  return { kind: "result", result: { ...(description === undefined ? {} : { description }), messages } };
}

/** The request's parameters are not right. */
export function invalid(message: string): MockResult {
  return { kind: "error", code: codes.invalidParams, message };
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Replaces `{NAME}` of each name that is known, in one go, so that nothing in a value is replaced again. */
function fillIn(text: string, values: ReadonlyMap<string, string>): string {
  return text.replaceAll(/\{([^{}]*)\}/g, (written, name: string) => values.get(name) ?? written);
}
