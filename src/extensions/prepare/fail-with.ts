import { type Diagnostic, McpvalsError } from "../../core/errors/error.ts";
import { formatLocation } from "../../core/errors/format-location.ts";
import { errorKinds } from "../../core/errors/catalogue.ts";

/**
 * Throws one McpvalsError for everything that is wrong, with the code of the first problem; returns when there is none.
 * What a user has to mend comes first, so that its code is theirs.
 */
export function failWith(diagnostics: readonly Diagnostic[], cause?: unknown): void {
  const ordered = diagnostics.toSorted((a, b) => rankOf(a) - rankOf(b));
  const [first] = ordered;
  if (first === undefined) return;
  const where = first.location === undefined ? "" : `${formatLocation(first.location)}: `;
  const more = ordered.length === 1 ? "" : ` (and ${ordered.length - 1} more)`;
  throw new McpvalsError(first.code, `${where}${first.message}${more}`, {
    diagnostics: ordered,
    ...(first.location === undefined ? {} : { location: first.location }),
    ...(first.hint === undefined ? {} : { hint: first.hint }),
    ...(cause === undefined ? {} : { cause }),
  });
}

function rankOf({ code }: Diagnostic): number {
  return errorKinds[code] === "usage" ? 0 : 1;
}
