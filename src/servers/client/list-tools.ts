import type { Client, RequestOptions } from "@modelcontextprotocol/client";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import { PageCursors } from "./page-cursors.ts";
import { resultSchema } from "./result-schema.ts";
import type { ToolDefinition } from "../session.ts";

interface Page {
  readonly tools: readonly ToolDefinition[];
  readonly nextCursor?: string;
}

/**
 * Asks for all pages of `tools/list`. Looks only at what a call needs, so that one odd annotation does not make a whole
 * server unusable; the record has the list as it came. Throws when a page is unusable, or the pages
 * do not come to an end.
 */
export async function listTools(client: Client, options: RequestOptions): Promise<ToolDefinition[]> {
  const tools: ToolDefinition[] = [];
  const cursors = new PageCursors();
  let cursor: string | undefined;
  do {
    const params = cursor === undefined ? {} : { params: { cursor } };
    const page: Page = await client.request({ method: "tools/list", ...params }, pageSchema, options);
    for (const tool of page.tools) tools.push(tool);
    cursor = page.nextCursor;
    const problem = cursor === undefined ? undefined : cursors.problemOf("tools/list", cursor);
    if (problem !== undefined) throw new Error(problem);
  } while (cursor !== undefined);
  return tools;
}

const pageSchema = resultSchema<Page>((result) => {
  const { tools, nextCursor } = result;
  if (!Array.isArray(tools)) return { problem: "tools is not an array" };
  for (const [index, tool] of tools.entries()) {
    const problem = toolProblem(tool);
    if (problem !== undefined) return { problem: `tools[${index}] ${problem}` };
  }
  if (nextCursor !== undefined && nextCursor !== null && typeof nextCursor !== "string")
    return { problem: "nextCursor is not a string" };
  return {
    value: { tools: tools as ToolDefinition[], ...(typeof nextCursor === "string" ? { nextCursor } : {}) },
  };
});

function toolProblem(tool: Json): string | undefined {
  if (!isJsonObject(tool)) return "is not an object";
  const { name, description, inputSchema, outputSchema } = tool;
  if (typeof name !== "string") return "has no name";
  const label = `(${name})`;
  if (!isJsonObject(inputSchema)) return `${label} has no inputSchema`;
  if (description !== undefined && typeof description !== "string")
    return `${label} has a description that is not text`;
  if (outputSchema !== undefined && !isJsonObject(outputSchema))
    return `${label} has an outputSchema that is no object`;
  return undefined;
}
