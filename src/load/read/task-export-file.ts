import { McpvalsError } from "../../core/errors/error.ts";

/** Whether a document was made by `mcpvals task export`. */
export function isTaskExport(root: ReadonlyMap<string, unknown>): boolean {
  const schema = root.get("schema");
  return typeof schema === "string" && schema.startsWith("mcpvals.task/");
}

/** The error for an exported task in the place of a task; `shown` is the file in messages. */
export function exportedTask(shown: string): McpvalsError {
  return new McpvalsError(
    "config/invalid-value",
    `${shown} is an exported task, made for other tools to read`,
    {
      location: { file: shown },
      hint: "Run the file that it was made from.",
    },
  );
}
