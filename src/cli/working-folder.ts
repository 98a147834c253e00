import { McpvalsError } from "../core/errors/error.ts";

/** The process's working folder. Throws McpvalsError `config/not-found` when it is gone. */
export function workingFolder(): string {
  try {
    return process.cwd();
  } catch (cause) {
    throw new McpvalsError("config/not-found", "the working folder is gone", {
      hint: "Change to a folder that exists.",
      cause,
    });
  }
}
