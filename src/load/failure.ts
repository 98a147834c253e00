import { type Diagnostic, McpvalsError } from "../core/errors/error.ts";
import { formatLocation } from "../core/errors/format-location.ts";

/** One error that stands for everything that is wrong with a file. Its code is that of the first problem. */
export function failureOf(diagnostics: readonly Diagnostic[], cause?: unknown): McpvalsError {
  const [first] = diagnostics;
  if (first === undefined)
    return new McpvalsError("internal/unexpected", "a failure without a problem", { cause });
  const where = first.location === undefined ? "" : `${formatLocation(first.location)}: `;
  const more = diagnostics.length === 1 ? "" : ` (and ${diagnostics.length - 1} more)`;
  return new McpvalsError(first.code, `${where}${first.message}${more}`, {
    diagnostics,
    ...(first.location === undefined ? {} : { location: first.location }),
    ...(first.hint === undefined ? {} : { hint: first.hint }),
    ...(cause === undefined ? {} : { cause }),
  });
}
