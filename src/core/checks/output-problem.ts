import type { Json, JsonObject } from "../formats/model.ts";
import type { SchemaCheck } from "../grade/grader.ts";

/** What is wrong with a tool's result in view of the `outputSchema` that it declares, as the end of a sentence; undefined: nothing. */
export async function outputProblem(
  schema: Json,
  { structuredContent: structured }: JsonObject,
  validateSchema: (schema: Json, value: Json) => Promise<SchemaCheck>,
): Promise<string | undefined> {
  if (structured === undefined) return "declares an outputSchema but gave no structuredContent";
  const check = await validateSchema(schema, structured);
  switch (check.status) {
    case "valid":
      return undefined;
    case "invalid":
      return `violates its outputSchema: ${check.errors.join(", ")}`;
    case "unusable":
      return `has an outputSchema that cannot be used: ${check.reason}`;
  }
}
