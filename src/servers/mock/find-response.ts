import { jsonDifference } from "../../core/checks/json-difference.ts";
import type { SchemaCheck } from "../../core/grade/grader.ts";
import type { Json, JsonObject, MockResponse } from "../../core/formats/model.ts";
import { previewJson } from "../../core/formats/read-json.ts";
import { compilePattern } from "../../core/templates/pattern.ts";

/** Validates a value against a JSON Schema; never rejects. */
export type ValidateSchema = (schema: Json, value: Json) => Promise<SchemaCheck>;

/** What a call is looked at with. */
export interface MockCall {
  readonly args: JsonObject;
  /** The values of the state, as they are now. */
  readonly state: ReadonlyMap<string, Json>;
  readonly validateSchema: ValidateSchema;
}

export type FoundResponse =
  | { readonly kind: "found"; readonly response: MockResponse }
  /** Why each of the responses does not fit, in their order. */
  | { readonly kind: "none"; readonly reasons: readonly string[] }
  /** A response's schema cannot be used, so that nobody knows whether it fits. */
  | { readonly kind: "unusable"; readonly reason: string };

/** Finds the first response that fits a call: all that it asks for is so. One that asks for nothing fits every call. */
export async function findResponse(
  responses: readonly MockResponse[],
  call: MockCall,
): Promise<FoundResponse> {
  const reasons: string[] = [];
  for (const response of responses) {
    const problem =
      matchProblem(response, call) ?? regexProblem(response, call) ?? whenProblem(response, call);
    const outcome: Looked =
      problem === undefined ? await lookWithSchema(response, call) : { kind: "looked", problem };
    if (outcome.kind === "unusable") return outcome;
    if (outcome.problem === undefined) return { kind: "found", response };
    reasons.push(outcome.problem);
  }
  return { kind: "none", reasons };
}

function matchProblem({ match }: MockResponse, { args }: MockCall): string | undefined {
  return match === undefined ? undefined : difference("arguments", args, match);
}

function regexProblem({ matchRegex = {} }: MockResponse, { args }: MockCall): string | undefined {
  for (const [name, source] of Object.entries(matchRegex)) {
    const value = Object.hasOwn(args, name) ? args[name] : undefined;
    if (value === undefined) return `argument ${name} is missing, expected /${source}/`;
    const text = typeof value === "string" ? value : JSON.stringify(value);
    if (!compilePattern(source).test(text))
      return `argument ${name} is ${previewJson(value)}, expected /${source}/`;
  }
  return undefined;
}

function whenProblem({ when = {} }: MockResponse, { state }: MockCall): string | undefined {
  for (const [name, expected] of Object.entries(when)) {
    const value = state.get(name);
    if (value === undefined) return `state ${name} is not set, expected ${previewJson(expected)}`;
    const problem = difference(`state ${name}`, value, expected);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** The first place where a value is not the expected one, in words. */
function difference(what: string, value: Json, expected: Json): string | undefined {
  const found = jsonDifference(value, expected, "equal");
  return found?.tell(found.pointer === "" ? what : `${what} at ${found.pointer}`);
}

type Looked =
  | { readonly kind: "looked"; readonly problem: string | undefined }
  | { readonly kind: "unusable"; readonly reason: string };

async function lookWithSchema(
  { matchSchema }: MockResponse,
  { args, validateSchema }: MockCall,
): Promise<Looked> {
  if (matchSchema === undefined) return { kind: "looked", problem: undefined };
  const check = await validateSchema(matchSchema, args);
  switch (check.status) {
    case "valid":
      return { kind: "looked", problem: undefined };
    case "invalid":
      return { kind: "looked", problem: `arguments do not satisfy its schema: ${check.errors.join("; ")}` };
    case "unusable":
      return { kind: "unusable", reason: check.reason };
  }
}
