import { McpvalsError } from "../../core/errors/error.ts";

/** The error for what stands in the way of a client's config file. */
export function clientConfigError(
  message: string,
  details: { readonly hint?: string; readonly cause?: unknown } = {},
): McpvalsError {
  return new McpvalsError("agent/client-config", message, details);
}

/** What went wrong, as a sentence's end. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
