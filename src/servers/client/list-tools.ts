import type { Client, RequestOptions, StandardSchemaV1 } from "@modelcontextprotocol/client";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { shortened } from "../../core/text/visible-text.ts";
import type { ToolDefinition } from "./session.ts";

interface Page {
  readonly tools: readonly ToolDefinition[];
  readonly nextCursor?: string;
}

/**
 * Requests all pages of `tools/list`. Checks only what a call needs, so that an invalid annotation does not make the whole server
 * unusable. Throws when a page is unusable or the pages do not end.
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

/** Pages that a list may have. */
const mostPages = 1000;

/** The cursors of a paged list, which must not go on forever. */
export class PageCursors {
  readonly #seen = new Set<string>();

  /** Why the page of a cursor is not requested; undefined when it is. */
  problemOf(method: string, cursor: string): string | undefined {
    if (this.#seen.has(cursor))
      return `${method} goes in circles: the cursor ${JSON.stringify(shortened(cursor, 200))} comes twice`;
    this.#seen.add(cursor);
    return this.#seen.size < mostPages ? undefined : `${method} has more than ${mostPages} pages`;
  }
}

/** The value of a result, or why it is unusable. */
export type Reading<T> = { readonly value: T } | { readonly problem: string };

/**
 * Creates a result schema for the SDK from a function. Unlike the SDK's own schemas it can keep unknown members. The SDK has checked
 * that the result is an object.
 */
export function resultSchema<T>(read: (result: JsonObject) => Reading<T>): StandardSchemaV1<unknown, T> {
  return {
    "~standard": {
      version: 1,
      vendor: "mcpvals",
      validate(result) {
        const reading = read(result as JsonObject);
        return "problem" in reading ? { issues: [{ message: reading.problem }] } : { value: reading.value };
      },
    },
  };
}
