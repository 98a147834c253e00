import { writtenForms } from "./written-forms.ts";

/** A value that must never be written, and the name to show in its place. */
export interface Secret {
  readonly name: string;
  readonly value: string;
}

/** Replaces secrets in any JSON-like value; gives the same value back when there is nothing to replace. */
export interface Redact {
  <T>(value: T): T;
  /** Whether a value with this JSON surely holds nothing to replace: one look at a text instead of a walk. */
  readonly isClean: (json: string) => boolean;
  /** Has one more secret removed from then on, such as a token that was got during the run. */
  readonly add: (secret: Secret) => void;
}

/** Deeper values would overflow the stack of whoever reads or writes them as JSON. */
const deepestNesting = 500;
/** Shorter numbers are ports, counts and ids more often than secrets. */
const secretNumber = /^[1-9]\d{7,}$/;

/**
 * Shapes of keys that are secrets whoever gave them: provider, forge and cloud keys, bearer tokens, private keys.
 * Servers choose the text, so none of them may look at a character more than a few times, and none may match without
 * bounds: a match of megabytes exhausts the stack.
 */
const knownShapes = [
  /\bsk-(?:ant-|proj-|svcacct-|or-)?[A-Za-z0-9_-]{20,400}/,
  /\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,400}/,
  /\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,400}/,
  /\bgithub_pat_[A-Za-z0-9_]{30,400}/,
  /\bglpat-[A-Za-z0-9_-]{20,400}/,
  /\bxox[abeoprs]-[A-Za-z0-9-]{10,400}/,
  /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/,
  /\bAIza[0-9A-Za-z_-]{30,400}/,
  /\bnpm_[A-Za-z0-9]{30,400}/,
  /\bhf_[A-Za-z0-9]{30,400}/,
  /(?<![\w-])eyJ[\w-]{8,8000}\.eyJ[\w-]{8,8000}\.[\w-]{1,8000}/,
  /(?<=\b[Bb]earer )(?=[\w.~+/-]{0,400}\d)[\w.~+/-]{16,8000}=*/,
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?!-----)[\s\S]){0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/,
] as const;

/** What every known shape has in it, however JSON escapes what stands around it. */
const shapeHints =
  /sk-|[rs]k_(?:live|test)_|gh[pousr]_|github_pat_|glpat-|xox|AKIA|ASIA|AIza|npm_|hf_|eyJ|earer |PRIVATE KEY/;

/**
 * Makes the one function that removes secrets from texts, keys of objects and whole numbers of eight or more digits:
 *
 * - the given values, and each line of those of several lines, also as JSON writes them (with or without escapes for
 *   other characters than ASCII and for `/`, also inside a text that is JSON) and as URLs do;
 * - everything that has the shape of a well-known key.
 *
 * Values under four characters are left alone, since replacing them would garble unrelated text. Other than that the
 * result is like the value: no member is lost, and what is nested too deeply to be written says so.
 */
export function createRedactor(secrets: readonly Secret[]): Redact {
  const names = new Map<string, string>();
  const labels = new Labels();
  const learn = ({ name, value }: Secret): void => {
    const label = labels.of(name, value);
    for (const form of writtenForms(value)) names.set(form, label);
  };
  for (const secret of secrets) learn(secret);
  let parts = compile(names, labels);
  const isClean = (json: string): boolean => !parts.hints.test(json);
  const redact = <T>(value: T): T => {
    const json = writeJson(value);
    return json !== undefined && isClean(json) ? value : (redactValue(value, parts) as T);
  };
  const add = (secret: Secret): void => {
    learn(secret);
    parts = compile(names, labels);
  };
  return Object.assign(redact, { isClean, add });
}

/** Everything that follows from the secrets known so far. */
function compile(names: ReadonlyMap<string, string>, labels: Labels): Replace & { readonly hints: RegExp } {
  const forms = [...names.keys()].toSorted((a, b) => b.length - a.length);
  const shapes = knownShapes.map((shape) => shape.source);
  const pattern = new RegExp([...forms.map(escapeRegExp), ...shapes].join("|"), "g");
  const marks = new Map([...new Set(names.values())].map((name) => [name, markFor(name, forms)]));
  const markOf = (secret: string): string => {
    const name = names.get(secret);
    return name === undefined ? markFor(labels.of("key", secret), forms) : (marks.get(name) ?? lastMark);
  };
  return {
    redactText: (text) => text.replace(pattern, markOf),
    redactNumber: (value) => {
      const text = String(value);
      return secretNumber.test(text) && names.has(text) ? markOf(text) : value;
    },
    hints: hintPattern(forms),
  };
}

/** Different values that are told apart; a server can make up keys without end. */
const mostLabels = 1000;

/** Gives each secret value a name of its own, `NAME`, `NAME 2` and so on: two secrets must not look like one. */
class Labels {
  readonly #known = new Map<string, string>();
  readonly #counts = new Map<string, number>();

  of(name: string, value: string): string {
    const key = `${name}\n${value}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const count = (this.#counts.get(name) ?? 0) + 1;
    const label = count === 1 ? name : `${name} ${count}`;
    if (this.#known.size >= mostLabels) return label;
    this.#counts.set(name, count);
    this.#known.set(key, label);
    return label;
  }
}

/** Matches at least all JSON text of which the value holds a secret. */
function hintPattern(forms: readonly string[]): RegExp {
  const written = new Set(forms.flatMap((form) => [form, JSON.stringify(form).slice(1, -1)]));
  return new RegExp([...[...written].map(escapeRegExp), shapeHints.source].join("|"));
}

/** JSON, or undefined for what has none: a value nested too deeply, or none at all. */
export function writeJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    // A walk through the value cuts it off where it gets too deep.
    return undefined;
  }
}

function escapeRegExp(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`);
}

const lastMark = "‹***›";

/** What stands in the place of a secret: never a text that is, or with its neighbours becomes, a secret again. */
function markFor(name: string, forms: readonly string[]): string {
  const marks = [`[secret:${name}]`, "[***]"];
  return marks.find((mark) => !forms.some((form) => overlap(form, mark))) ?? lastMark;
}

function overlap(form: string, mark: string): boolean {
  if (mark.includes(form) || form.includes(mark)) return true;
  const cuts = Array.from({ length: mark.length - 1 }, (_, index) => index + 1);
  return cuts.some((cut) => form.endsWith(mark.slice(0, cut)) || form.startsWith(mark.slice(cut)));
}

interface Replace {
  readonly redactText: (text: string) => string;
  readonly redactNumber: (value: number) => unknown;
}

function redactValue(value: unknown, replace: Replace, depth = 0): unknown {
  if (typeof value === "string") return replace.redactText(value);
  if (typeof value === "number") return replace.redactNumber(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth > deepestNesting) return "[nested too deeply to record]";
  if (Array.isArray(value)) return redactArray(value, replace, depth);
  return redactObject(value as Record<string, unknown>, replace, depth);
}

function redactArray(items: readonly unknown[], replace: Replace, depth: number): readonly unknown[] {
  const changed = items.map((item) => redactValue(item, replace, depth + 1));
  return changed.every((item, index) => Object.is(item, items[index])) ? items : changed;
}

function redactObject(object: Record<string, unknown>, replace: Replace, depth: number): object {
  let same = true;
  const entries = Object.entries(object).map(([key, item]) => {
    const newKey = replace.redactText(key);
    const newItem = redactValue(item, replace, depth + 1);
    if (newKey !== key || !Object.is(newItem, item)) same = false;
    return [newKey, newItem] as const;
  });
  return same ? object : Object.fromEntries(withDistinctKeys(entries));
}

/** Two secrets as keys of one object must not become one key. */
function withDistinctKeys<T>(entries: readonly (readonly [string, T])[]): (readonly [string, T])[] {
  const seen = new Set<string>();
  return entries.map(([key, item]) => {
    let distinct = key;
    for (let copy = 2; seen.has(distinct); copy += 1) distinct = `${key} ${copy}`;
    seen.add(distinct);
    return [distinct, item];
  });
}
