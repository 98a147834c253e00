import { McpvalsError } from "../../core/errors/error.ts";

/** What is thrown for a place that cannot be written; any other error stays as it is. */
export function unwritable(path: string, error: unknown): unknown {
  if (!hasCode(error, "EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "ENOTDIR", "ENOENT")) return error;
  return new McpvalsError("extension/unwritable", `${path} cannot be written: ${error.message}`, {
    cause: error,
  });
}

/** Tells whether an error of the file system has one of these codes. */
export function hasCode(error: unknown, ...codes: readonly string[]): error is Error {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}
