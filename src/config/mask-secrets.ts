import { isSecretName } from "./secret-names.ts";

/** A name, and what is assigned to it: a quoted text or a word, either with `${VAR}` in it. */
const assignment =
  /((?:"[^"]*"|'[^']*'|[\w.-]+)\s*[:=]\s*)("(?:[^"\\]|\\.)*"?|'[^']*'?|(?:\$\{[^}]*\}|[^\s,}\]])+)/g;

/**
 * Overwrites secrets in lines of a file with asterisks, so that the columns stay: the given values, and whatever is
 * written after a name that looks secret. References such as `${VAR}` stay.
 */
export function maskSecrets(lines: string, values: readonly string[] = []): string {
  const known = values
    .toSorted((a, b) => b.length - a.length)
    .reduce((text, value) => text.replaceAll(value, "*".repeat(value.length)), lines);
  return known.replaceAll(assignment, (match, name: string, value: string) =>
    isSecretName(name.replaceAll(/["':=\s]/g, "")) ? name + maskValue(value) : match,
  );
}

function maskValue(value: string): string {
  return value.replaceAll(/\$\{[^}]*\}|[^"'\s]/g, (part) => (part.length > 1 ? part : "*"));
}
