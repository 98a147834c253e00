import { checkJson } from "../../core/checks/json-expectation.ts";
import { structuredContent } from "../../core/checks/result-text.ts";
import { formatSchemaError } from "../../core/checks/schema-check.ts";
import { McpvalsError } from "../../core/errors/error.ts";
import type { Json } from "../../core/formats/model.ts";
import { readJsonText } from "../../core/formats/read-json.ts";
import type { McpStep } from "../../core/formats/step.ts";
import type { Check } from "../../core/trace/events.ts";
import type { StepContext } from "../step-runner.ts";
import type { Answer } from "./answer.ts";

/** Tries what is expected of the JSON in an answer. Throws `step/cannot-run` for a schema that cannot be used. */
export async function checkValue(
  { id, expect }: McpStep,
  answer: Answer,
  { trial }: StepContext,
): Promise<readonly Check[]> {
  const { json, schema } = expect;
  if (json === undefined && schema === undefined) return [];
  const value = valueOf(answer);
  if (value === undefined) {
    return [
      ...(json === undefined ? [] : [missingValue("json", answer)]),
      ...(schema === undefined ? [] : [missingValue("schema", answer)]),
    ];
  }
  const jsonChecks = json === undefined ? [] : checkJson("json", json, value);
  if (schema === undefined) return jsonChecks;
  const validation = await trial.validateSchema(schema, value);
  if (validation.status === "unusable")
    throw new McpvalsError("step/cannot-run", `step ${id}: its schema cannot be used: ${validation.reason}`);
  const fits = validation.status === "valid";
  const message = fits
    ? "it fits the schema"
    : `it does not fit the schema: ${validation.errors.map((error) => formatSchemaError(error)).join("; ")}`;
  return [...jsonChecks, { name: "schema", passed: fits, expected: schema, actual: value, message }];
}

/** The value that expectations speak of; undefined when there is none. */
function valueOf({ kind, outcome, text }: Answer): Json | undefined {
  if (outcome.kind === "error") return kind === "tool" ? readJsonText(text).value : undefined;
  if (kind !== "tool") return outcome.result;
  return structuredContent(outcome.result) ?? readJsonText(text).value;
}

function missingValue(name: string, { outcome, text }: Answer): Check {
  const message =
    outcome.kind === "error"
      ? "there is no result"
      : `the result has no structured content and its text is not JSON: ${readJsonText(text).reason}`;
  return { name, passed: false, expected: "JSON", actual: text, message, unplaced: true };
}
