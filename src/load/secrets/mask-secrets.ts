import { isSecretName } from "./secret-names.ts";
import { secretsInUrls } from "./url-secrets.ts";

/** The name that something is assigned to, up to where the value begins. */
const assigned = /("[^"]*"|'[^']*'|[\w.-]+)\s*[:=][^\S\n]*/g;
/** A quoted text, or words up to a comma or bracket, with `${VAR}` in them. */
const assignedValue = /"(?:[^"\\]|\\.)*"?|'[^']*'?|(?:\$\{[^}]*\}|[^\n,}\]])+/y;

/**
 * Overwrites secrets in lines of a file with asterisks, so that the columns stay: the given values, passwords in URLs, and
 * whatever is written after a name that looks secret. References such as `${VAR}` stay.
 */
export function maskSecrets(lines: string, values: readonly string[] = []): string {
  const inUrls = secretsInUrls(lines, "").map(({ value }) => value);
  const known = [...values, ...inUrls.filter((value) => !value.includes("${"))]
    .toSorted((a, b) => b.length - a.length)
    .reduce((text, value) => text.replaceAll(value, "*".repeat(value.length)), lines);
  return maskAssigned(known);
}

function maskAssigned(text: string): string {
  let masked = "";
  let end = 0;
  for (const { index, 0: start, 1: name = "" } of text.matchAll(assigned)) {
    if (index < end || !isSecretName(name.replaceAll(/["']/g, ""))) continue;
    assignedValue.lastIndex = index + start.length;
    const value = assignedValue.exec(text)?.[0] ?? "";
    masked += text.slice(end, index + start.length) + maskValue(value);
    end = index + start.length + value.length;
  }
  return masked + text.slice(end);
}

function maskValue(value: string): string {
  return value.replaceAll(/\$\{[^}]*\}|[^"'\s]/g, (part) => (part.length > 1 ? part : "*"));
}
