import { isJsonObject } from "../json.ts";
import type { Json } from "../model.ts";
import type { Trust } from "../../templates/scope.ts";
import type { StepView } from "./view-steps.ts";

/** Whether a root, such as the variable of a `foreach`, has what the names after it lead to. */
export interface HasNames extends Trust {
  (names: readonly string[]): boolean;
}

/** Roots that only some texts of a task have. */
export type Locals = ReadonlyMap<string, HasNames>;

const any: HasNames = () => true;
const plain: HasNames = (names) => names.length === 0;
const nothing: HasNames = () => false;

const printed = { stdout: plain, stderr: plain, exitCode: plain };
const answered = { result: any, text: plain };

/** What the `outputs` of a step may use besides everything else. */
export function valuesOf(view: StepView): Locals {
  return new Map(Object.entries({ outputs: nothing, ...ownValues(view) }));
}

function ownValues({ kind, body }: StepView): Readonly<Record<string, HasNames>> {
  switch (kind) {
    case "command":
      return printed;
    case "http":
      return { response: ofResponse };
    case "file":
      return isJsonObject(body) && body["absent"] !== undefined ? {} : { content: plain };
    case "llm":
      return { score: plain, reason: plain };
    case "script":
      return givesOutputs({ kind, body }) ? { ...printed, outputs: any } : printed;
    case "mcp":
    case "call":
      return answered;
    case "extension":
    case "operation":
      return { outputs: any };
    case "foreach":
    case "anyOf":
    case "allOf":
    case "not":
    case "group":
      return {};
  }
}

/** What the `outputs` of an action of a solution may use. */
export const solutionValues: Locals = new Map(Object.entries({ ...answered, outputs: nothing }));

/** Whether a step has outputs that nobody but the step knows. */
export function givesOutputs({ kind, body }: Pick<StepView, "kind" | "body">): boolean {
  if (kind === "extension" || kind === "operation") return true;
  return kind === "script" && isJsonObject(body) && body["protocol"] === "json";
}

function ofResponse(names: readonly string[]): boolean {
  const [part, header, ...rest] = names;
  if (part === undefined) return true;
  if (part === "headers") return rest.length === 0;
  return (part === "body" || part === "status") && header === undefined;
}

/** The variable of a `foreach`: a list that is written out has to have the names in all of its items. */
export function variableOf(items: Json | undefined, trust: Trust): HasNames {
  const has = (names: readonly string[]): boolean =>
    !Array.isArray(items) || items.every((item: Json) => leads(item, names));
  return Object.assign(has, trust);
}

function leads(item: Json, names: readonly string[]): boolean {
  const [name, ...rest] = names;
  if (name === undefined) return true;
  if (typeof item !== "object" || item === null || !Object.hasOwn(item, name)) return false;
  return leads((item as Readonly<Record<string, Json>>)[name] ?? null, rest);
}
