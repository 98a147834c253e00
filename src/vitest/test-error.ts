import { McpvalsError } from "../core/errors/error.ts";
import { renderError } from "../core/errors/render.ts";

/** An error as Vitest shows it best: all that is known, such as a server's stderr, in its message, without secrets. */
export function testError(error: unknown, redact: (text: string) => string = (text) => text): Error {
  if (!(error instanceof McpvalsError)) return error instanceof Error ? error : new Error(String(error));
  const shown = new Error(redact(renderError(error)).replace(/^error /, ""));
  shown.name = "McpvalsError";
  return shown;
}
