import { isTraceWord, type Secret } from "../../core/trace/redact.ts";

const always =
  /token(?!iz)|secret|passw(?:or)?d|passphrase|passwd|credential|cookie|private|api[-_.]?key|connection[-_.]?string/i;
/** Words that count only as words of the name, so that PATH, PWD, KEYBOARD and AUTHOR are left alone. */
const asWord =
  /(?:^|[-_.])(?:o?auth(?!or(?:s|ed)?(?:$|[-_.]))|(?:pat|pass|dsn)(?=$|[-_.]))|[-_.]pwd(?=$|[-_.])|keys?(?=$|[-_.])/i;
const quantity = /(?:^|[-_.])(?:max|min|num|count|limit|size|length|ttl|expir|timeout|budget|retries|port)/i;
/** Values that stand for "no secret": switches, kinds of authentication, placeholders that local models take. */
const wordValue =
  /^(?:true|false|null|none|undefined|yes|no|on|off|enabled|disabled|default|basic|bearer|dummy|unused|not-needed|ollama|lm-studio)$/i;

/** Whether a variable, header, flag or query parameter of this name may hold a secret. */
export function isSecretName(name: string): boolean {
  const spread = name.replaceAll(/([a-z\d])([A-Z])/g, "$1_$2");
  return always.test(spread) || always.test(name) || asWord.test(spread);
}

/**
 * Whether a value under a secret's name is worth hiding. Removing `true` or a token limit from every text would garble
 * it and hide nothing; removing a word that traces, MCP or JSON Schema are written in would change what they say.
 */
export function isSecretValue(name: string, value: string): boolean {
  if (value.length < 4 || wordValue.test(value) || isTraceWord(value.trim())) return false;
  return !(quantity.test(name) && /^\d+$/.test(value));
}

const url = /[a-z][a-z0-9+.-]*:\/\/[^\s"'<>`]+/gi;
const password = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)@/i;
const secretParameter = /^(?:sig|signature|code|sas|jwt|session|sid|access|auth|pw)$/i;

/**
 * Passwords and token-like query values of every URL in a text, as written and decoded; `name` is what the text is
 * called. The URLs need not be of the web: database addresses carry passwords too.
 */
export function secretsInUrls(text: string, name: string): Secret[] {
  if (!text.includes("://")) return [];
  return [...text.matchAll(url)]
    .flatMap(([address]) => [...passwordOf(address), ...parameterValues(address)])
    .flatMap((value) => [...new Set([value, decode(value)])])
    .filter((value) => value.length >= 4)
    .map((value) => ({ name, value }));
}

function passwordOf(address: string): string[] {
  const user = password.exec(address)?.[1];
  const colon = user?.indexOf(":") ?? -1;
  if (user === undefined) return [];
  // A lone user name in front of the host is a token where services take one, as in https://TOKEN@host.
  return [colon === -1 ? (user.length >= 16 ? user : "") : user.slice(colon + 1)];
}

function parameterValues(address: string): string[] {
  const query = /[?#](.*)$/.exec(address)?.[1] ?? "";
  return query.split(/[&;?#]/).flatMap((pair) => {
    const [name = "", value = ""] = splitOnce(pair, "=");
    const secret = isSecretName(name) || secretParameter.test(name);
    return secret && isSecretValue(name, value) ? [value] : [];
  });
}

function splitOnce(text: string, separator: string): string[] {
  const at = text.indexOf(separator);
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    // Not percent-encoded: the text is the value.
    return value;
  }
}

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
