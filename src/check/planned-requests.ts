import { isJsonObject, type Json, type JsonObject, mapValues } from "../base/json.ts";
import type { PlannedCall, PlannedRead } from "../model/check.ts";
import type { FindingPlace } from "../model/finding.ts";
import { expandTemplate } from "./uri-template.ts";

/** In plans, stands for a text that is too long to be in them. */
export const longText = "{mcpvals: a long text}";
/** So that what all tools, prompts and templates that are attacked give back of it is less than what a check reads. */
export const longTextLength = 250_000;

/** A tool that is called, a resource that is read, or a prompt that is got. */
export type Planned = PlannedCall | PlannedRead;

/** The methods of planned requests. */
export const plannedMethods = ["tools/call", "resources/read", "prompts/get"] as const;

/** How a planned request is made. */
export function requestOf(planned: Planned): {
  readonly method: (typeof plannedMethods)[number];
  readonly params: JsonObject;
} {
  const args = planned.args && withLongText(planned.args);
  if ("tool" in planned)
    return { method: "tools/call", params: { name: planned.tool, ...(args && { arguments: args }) } };
  const { kind, name, isRaw = false } = planned;
  if (kind === "prompt") return { method: "prompts/get", params: { name, ...(args && { arguments: args }) } };
  const texts = mapValues(args ?? {}, (value) => (typeof value === "string" ? value : JSON.stringify(value)));
  return {
    method: "resources/read",
    params: { uri: args === undefined ? name : expandTemplate(name, texts, { isRaw }) },
  };
}

/** What a planned request is about, as the place of what is found. */
export function placeOfPlanned(planned: Planned): FindingPlace {
  return "tool" in planned ? { tool: planned.tool } : { [planned.kind]: planned.name };
}

/** Arguments with what is too long to be in a plan. */
function withLongText(args: JsonObject): JsonObject {
  const made = (value: Json): Json => {
    if (value === longText) return "mcpvals ".repeat(longTextLength / 8);
    if (Array.isArray(value)) return (value as readonly Json[]).map(made);
    return isJsonObject(value) ? mapValues(value, made) : value;
  };
  return mapValues(args, made);
}
