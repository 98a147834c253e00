import type { SourceLocation } from "./error.ts";

/** Writes a place as compilers do: `FILE:LINE:COLUMN`, as far as it is known. */
export function formatLocation(location: SourceLocation): string {
  const { file, line, column } = location;
  return [file, line, column].filter((part) => part !== undefined).join(":");
}
