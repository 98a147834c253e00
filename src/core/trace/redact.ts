/** A value that must never be written, and the name to show in its place. */
export interface Secret {
  readonly name: string;
  readonly value: string;
}

/** Replaces secrets in any JSON-like value; gives the same value back when there is nothing to replace. */
export type Redact = <T>(value: T) => T;

const shortestSecret = 4;
/** Deeper values would overflow the stack of whoever reads or writes them as JSON. */
const deepestNesting = 500;

/** Shapes of keys that are secrets whoever gave them: provider, forge and cloud keys, bearer tokens, private keys. */
const knownShapes = [
  /\bsk-(?:ant-|proj-|svcacct-|or-)?[A-Za-z0-9_-]{20,}/,
  /\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,}/,
  /\bgithub_pat_[A-Za-z0-9_]{30,}/,
  /\bglpat-[A-Za-z0-9_-]{20,}/,
  /\bxox[abeoprs]-[A-Za-z0-9-]{10,}/,
  /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/,
  /\bAIza[0-9A-Za-z_-]{30,}/,
  /\bnpm_[A-Za-z0-9]{30,}/,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----/,
] as const;

/**
 * Makes the one function that removes secrets: the exact values of the given ones, also as JSON and URLs write them,
 * and everything that has the shape of a well-known key. Values under four characters are left alone, since
 * replacing them would garble unrelated text.
 */
export function createRedactor(secrets: readonly Secret[]): Redact {
  const names = new Map<string, string>();
  for (const { name, value } of secrets) {
    for (const form of writtenForms(value)) {
      if (form.length >= shortestSecret) names.set(form, name);
    }
  }
  const values = [...names.keys()].toSorted((a, b) => b.length - a.length).map(escapeRegExp);
  const pattern = new RegExp([...values, ...knownShapes.map((shape) => shape.source)].join("|"), "g");
  const redactText = (text: string): string =>
    text.replace(pattern, (match) => `[secret:${names.get(match) ?? "key"}]`);
  return <T>(value: T): T => redactValue(value, redactText) as T;
}

function writtenForms(value: string): string[] {
  return [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value.toWellFormed())];
}

function escapeRegExp(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`);
}

type RedactText = (text: string) => string;

function redactValue(value: unknown, redactText: RedactText, depth = 0): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth > deepestNesting) return "[nested too deeply to record]";
  if (Array.isArray(value)) return redactArray(value, redactText, depth);
  return redactObject(value as Record<string, unknown>, redactText, depth);
}

function redactArray(items: readonly unknown[], redactText: RedactText, depth: number): readonly unknown[] {
  const changed = items.map((item) => redactValue(item, redactText, depth + 1));
  return changed.every((item, index) => item === items[index]) ? items : changed;
}

function redactObject(object: Record<string, unknown>, redactText: RedactText, depth: number): object {
  let same = true;
  const entries = Object.entries(object).map(([key, item]) => {
    const newKey = redactText(key);
    const newItem = redactValue(item, redactText, depth + 1);
    if (newKey !== key || newItem !== item) same = false;
    return [newKey, newItem] as const;
  });
  return same ? object : Object.fromEntries(entries);
}
