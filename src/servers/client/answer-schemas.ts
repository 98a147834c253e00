import type { StandardSchemaV1 } from "@modelcontextprotocol/client";
import { contentProblem } from "../../core/checks/content-problem.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import { resultSchema } from "./result-schema.ts";
import type { Sdk } from "./sdk.ts";

/** Takes any result, and leaves it as it came. */
export const anyResult: StandardSchemaV1<unknown, JsonObject> = resultSchema((result) => ({ value: result }));

/** Takes a result of `tools/call` that is one, and leaves it as it came. */
export function callResultSchema(sdk: Sdk): StandardSchemaV1<unknown, JsonObject> {
  const schema = sdk.specTypeSchemas.CallToolResult["~standard"];
  return resultSchema((result) => {
    const { content, structuredContent } = result;
    if (!Array.isArray(content) && (content !== undefined || structuredContent === undefined))
      return { problem: "content is not an array" };
    const problem = contentProblem(result);
    if (problem !== undefined) return { problem };
    const { issues } = schema.validate(result);
    const issue = issues?.[0];
    return issue === undefined ? { value: result } : { problem: `${pathText(issue.path)}${issue.message}` };
  });
}

/** Takes a result of `resources/read` that has contents, and leaves it as it came. */
export const resourceResultSchema: StandardSchemaV1<unknown, JsonObject> = withList("contents");

/** Takes a result of `prompts/get` that has messages, and leaves it as it came. */
export const promptResultSchema: StandardSchemaV1<unknown, JsonObject> = withList("messages");

/** Takes a page of a list under this key, and leaves it as it came. */
export function listResultSchema(key: string): StandardSchemaV1<unknown, JsonObject> {
  return withList(key);
}

function withList(key: string): StandardSchemaV1<unknown, JsonObject> {
  return resultSchema((result) =>
    Array.isArray(result[key]) ? { value: result } : { problem: `${key} is not an array` },
  );
}

function pathText(path: StandardSchemaV1.Issue["path"]): string {
  if (path === undefined || path.length === 0) return "";
  return `${path.map((part) => String(typeof part === "object" ? part.key : part)).join(".")}: `;
}
