import { McpvalsError } from "../core/errors/error.ts";
import { renderError } from "../core/errors/render.ts";

/** An error as Vitest shows it best: all that is known, such as a server's stderr, in its message. */
export function testError(error: unknown): Error {
  if (!(error instanceof McpvalsError)) return error instanceof Error ? error : new Error(String(error));
  const shown = new Error(renderError(error).replace(/^error /, ""));
  shown.name = "McpvalsError";
  return shown;
}
