import { maxExpansionLength, maxFileDepth, maxFileValues, maxMemory, maxMessageDepth } from "./limits.ts";
import { messageOf } from "./error.ts";
import { createScanner } from "jsonc-parser";
import { TextRoom } from "./text-room.ts";
import { isJsonObject, formatKeyPath, type Json, type KeyPath } from "./json.ts";
import { type Problem, problem, problemAt } from "./problem.ts";

/** Thrown while a document is read that is too large; the message says how. */
class DocumentTooLarge extends Error {}

export interface ReadJsonOptions {
  /** What the document is called in messages about the whole of it, such as `the config`. */
  readonly subject: string;
  /** Where problems go. */
  readonly problems: Problem[];
  /** What a string value becomes. */
  readonly text: (text: string, path: KeyPath) => string;
  /** Whether a member that is undefined counts as absent. Default: never. */
  readonly mayBeAbsent?: (path: KeyPath) => boolean;
}

/**
 * Copies a document. What JSON cannot hold (undefined, functions, dates, cycles, NaN, holes in lists, keys that are
 * symbols) becomes null and a problem, so that nothing that the author wrote is lost. A document that is too large is only
 * that one problem, at its root.
 */
export function readJson(document: unknown, options: ReadJsonOptions): Json {
  const room = new TextRoom(() => new DocumentTooLarge(`more than ${maxExpansionLength} characters of text`));
  const state: State = { ...options, values: 0, room };
  try {
    return copy(document, [], state);
  } catch (error) {
    if (!(error instanceof DocumentTooLarge)) throw error;
    options.problems.splice(0);
    return refuse(error.message, [], state);
  }
}

interface State extends ReadJsonOptions {
  values: number;
  readonly room: TextRoom;
}

function copy(value: unknown, path: KeyPath, state: State): Json {
  state.values += 1;
  if (state.values > maxFileValues) throw new DocumentTooLarge(`more than ${maxFileValues} values`);
  if (typeof value === "string") return state.room.take(state.text(value, path));
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number")
    return Number.isFinite(value) ? value : refuse(`${value} is not a number that JSON has`, path, state);
  if (path.length >= maxFileDepth) return refuse(`nested deeper than ${maxFileDepth} levels`, path, state);
  if (Array.isArray(value)) {
    // Unlike map, this does not jump over holes.
    const items = Array.from(value, (item, index) => copy(item, [...path, index], state));
    // A list's own members come after its entries.
    const last = Object.keys(value).at(-1);
    if (last === undefined || /^\d+$/.test(last)) return items;
    return refuse(`a list with the member ${JSON.stringify(last)} is not JSON`, path, state);
  }
  if (isPlainObject(value)) return copyObject(value, path, state);
  const hint = value === undefined ? "Give it a value, or leave it out." : undefined;
  return refuse(`${describeKind(value)} is not JSON`, path, state, hint);
}

function copyObject(value: object, path: KeyPath, state: State): Json {
  const members: [string, Json][] = [];
  for (const key of Reflect.ownKeys(value)) {
    if (typeof key === "symbol") refuse(`a key that is a symbol (${String(key)}) is not JSON`, path, state);
    else if (Object.prototype.propertyIsEnumerable.call(value, key)) {
      const place = [...path, key];
      const member: unknown = Reflect.get(value, key);
      if (member !== undefined || state.mayBeAbsent?.(place) !== true)
        members.push([key, copy(member, place, state)]);
    }
  }
  return Object.fromEntries(members);
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype) return true;
  // A config that was evaluated in another realm has that realm's Object.prototype.
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, "hasOwnProperty");
}

function describeKind(value: unknown): string {
  if (value === undefined) return "undefined";
  if (typeof value !== "object" || value === null) return `a value of type ${typeof value}`;
  const made: unknown = (value as { constructor?: unknown }).constructor;
  return typeof made === "function" && made.name !== "" ? `a ${made.name}` : "this object";
}

function refuse(message: string, path: KeyPath, { subject, problems }: State, hint?: string): null {
  const place = formatKeyPath(path);
  const where = path.length === 0 ? subject : place.length <= 120 ? place : `${place.slice(0, 80)}…`;
  problems.push(problem(path, `${where}: ${message}`, { hint }));
  return null;
}

/** Gives a variable's value, or undefined when it is not set. */
export type LookupVariable = (name: string) => string | undefined;

export interface Interpolation {
  readonly value: Json;
  readonly problems: readonly Problem[];
  /** The text as written, by formatted key path, of every string that a variable went into. */
  readonly templates: ReadonlyMap<string, string>;
  /** Every variable that was looked up and found. */
  readonly variables: ReadonlyMap<string, string>;
}

/** `$${`, or `${NAME}`, or `${NAME:-default}`, or any other `${`. */
const reference = /\$\$\{|\$\{(?:([A-Za-z_]\w*)(?::-([^{}]*))?\})?/g;

/**
 * Copies a document as {@link readJson} does, replacing `${VAR}` and `${VAR:-default}` in every string value; `$${` writes
 * a literal `${`. As in a shell, the default also stands for an empty variable. Keys are left as they are.
 */
export function interpolate(
  document: unknown,
  lookup: LookupVariable,
  {
    mayBeAbsent = () => false,
    spell = (text) => text,
    standIn,
  }: {
    /** The value of a variable that is not set and has no default; absent: that is a problem. */
    readonly standIn?: ((name: string) => string) | undefined;
    readonly mayBeAbsent?: (path: KeyPath) => boolean;
    /** Writes the variables of another tool in this form. */
    readonly spell?: (text: string) => string;
  } = {},
): Interpolation {
  const problems: Problem[] = [];
  const templates = new Map<string, string>();
  const variables = new Map<string, string>();
  const room = new TextRoom(
    () => new DocumentTooLarge(`its variables give more than ${maxExpansionLength} characters`),
  );
  const text = (template: string, path: KeyPath): string => {
    if (!template.includes("${")) return template;
    templates.set(formatKeyPath(path), template);
    return spell(template).replaceAll(reference, (match: string, name?: string, fallback?: string) => {
      if (match === "$${") return "${";
      if (name === undefined) {
        const hint = "Write ${NAME} or ${NAME:-default} (no braces in the default); $${ writes a literal ${.";
        problems.push(problemAt(path, ': invalid variable syntax after "${"', { hint }));
        return "${";
      }
      const found = lookup(name) ?? (fallback === undefined ? standIn?.(name) : undefined);
      if (found !== undefined) variables.set(name, found);
      const value = found === "" ? (fallback ?? "") : (found ?? fallback);
      if (value === undefined)
        problems.push(
          problemAt(path, `: the variable ${name} is not set`, {
            code: "config/unset-variable",
            text: `\${${name}`,
            hint: `Set ${name}, pass --env ${name}=VALUE, or write \${${name}:-default}; $\${ writes a literal \${.`,
          }),
        );
      return room.take(value ?? "");
    });
  };
  const value = readJson(document, { subject: "the config", problems, text, mayBeAbsent });
  return { value, problems, templates, variables };
}

/** Replaces `${VAR}` in some parts of a document, named by their paths; the others stay as they are. */
export function interpolateParts(
  document: Json,
  parts: readonly (readonly string[])[],
  lookup: LookupVariable,
): Interpolation {
  const chosen = parts.reduce<Json>((value, path) => copyPart(document, value, path), {});
  const found = interpolate(chosen, lookup);
  const value = parts.reduce<Json>((rest, path) => copyPart(found.value, rest, path), document);
  return { ...found, value };
}

/** The target with the part of the source at a path; without it where the source has none. */
function copyPart(source: Json, target: Json, [key, ...rest]: readonly string[]): Json {
  if (key === undefined) return source;
  const inner = isJsonObject(source) && Object.hasOwn(source, key) ? source[key] : undefined;
  if (inner === undefined) return target;
  const base = isJsonObject(target) ? target : {};
  return { ...base, [key]: copyPart(inner, base[key] ?? {}, rest) };
}

/**
 * Parses JSON that decides something: as `JSON.parse`, but a duplicate key is refused, since
 * readers differ on which one counts. Throws SyntaxError.
 */
export function parseStrictJson(text: string): Json {
  const value = JSON.parse(text) as Json;
  const key = repeatedKey(text);
  if (key === undefined) return value;
  throw new SyntaxError(`duplicate key ${JSON.stringify(key.slice(0, 80))}`);
}

export type JsonText =
  | { readonly value: Json; readonly reason?: never }
  | { readonly value?: never; readonly reason: string };

/** The value of a text, read as {@link parseStrictJson} does, or why it has none. */
export function readJsonText(text: string): JsonText {
  if (text.trim() === "") return { reason: "it is empty" };
  try {
    return { value: parseStrictJson(text) };
  } catch (error) {
    // The engine's words repeat a part of the text, in which a secret could not be recognised any more.
    const words = messageOf(error);
    return { reason: words.replace(/,? ?(?:\.\.\.)?"[\s\S]*"(?:\.\.\.)? is not valid JSON$/, "") };
  }
}

/** The first key that an object has twice, escapes in it resolved. The text has to be well-formed JSON, of any depth. */
export function repeatedKey(text: string): string | undefined {
  const scanner = createScanner(text, true);
  /** The keys of the objects that are open, undefined as long as there is none. */
  const open: (Set<string> | undefined)[] = [];
  let string = "";
  const next = (): number => scanner.scan();
  for (let token = next(); token !== jsonToken.endOfText; token = next()) {
    if (token === jsonToken.openBrace) open.push(undefined);
    else if (token === jsonToken.closeBrace) open.pop();
    else if (token === jsonToken.string) string = scanner.getTokenValue();
    else if (token === jsonToken.colon) {
      const keys = (open[open.length - 1] ??= new Set());
      if (keys.has(string)) return string;
      keys.add(string);
    }
  }
  return undefined;
}

/** Values of the library's `SyntaxKind`, a const enum that exists only for the compiler. */
export const jsonToken = {
  openBrace: 1,
  closeBrace: 2,
  openBracket: 3,
  closeBracket: 4,
  comma: 5,
  colon: 6,
  string: 10,
  lineComment: 12,
  blockComment: 13,
  lineBreak: 14,
  blank: 15,
  endOfText: 17,
} as const;

/** The first `limit` characters of a value's JSON; costs no more than that, however large or deep the value is. */
export function previewJson(value: unknown, limit = 80): string {
  const text = write(value, limit);
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}

/** The whole JSON when it has at most `room` characters, else more than `room` of them. */
function write(value: unknown, room: number): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, room + 1));
  if (typeof value !== "object" || value === null)
    return value === undefined ? "undefined" : JSON.stringify(value);
  const isList = Array.isArray(value);
  const members: Iterable<[string | number, unknown]> = isList ? value.entries() : Object.entries(value);
  let text = isList ? "[" : "{";
  for (const [key, member] of members) {
    if (text.length > 1) text += ",";
    if (typeof key === "string") text += `${JSON.stringify(key.slice(0, room + 1))}:`;
    if (text.length > room) break;
    text += write(member, room - text.length);
  }
  return `${text}${isList ? "]" : "}"}`;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;

/**
 * Measures JSON before it is parsed, since a value can take twenty times the memory of its text, and parsing one that is
 * nested millions of levels deep takes seconds. What is not JSON is measured somehow.
 */
export class JsonMeter {
  #depth = 0;
  #deepest = 0;
  #containers = 0;
  #separators = 0;
  #bytes = 0;
  #isInText = false;
  #isEscaped = false;

  /** Levels of lists and objects. */
  get deepest(): number {
    return this.#deepest;
  }

  /** Lists, objects, and whatever stands behind a comma. */
  get values(): number {
    return this.#containers + this.#separators;
  }

  /** About how many bytes of memory the value takes: that of its text, and that of what is in it. */
  get weight(): number {
    return this.#bytes + this.#containers * containerWeight + this.#separators * valueWeight;
  }

  /** Takes the next piece of the text, in UTF-8. */
  push(bytes: Uint8Array): this {
    const end = bytes.length;
    let [depth, deepest, containers, separators] = [this.#depth, this.#deepest, 0, 0];
    for (let index = this.#isInText ? this.#textEnd(bytes, 0) : 0; index < end; index += 1) {
      const byte = bytes[index];
      if (byte === quote) index = this.#textEnd(bytes, index + 1) - 1;
      else if (byte === comma) separators += 1;
      else if (byte === 0x7b || byte === 0x5b) {
        containers += 1;
        depth += 1;
        if (depth > deepest) deepest = depth;
      } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
    }
    this.#bytes += end;
    [this.#depth, this.#deepest] = [depth, deepest];
    this.#containers += containers;
    this.#separators += separators;
    return this;
  }

  /** The place behind the text in quotes that goes on at `from`; the end of the piece where the text does not end in it. */
  #textEnd(bytes: Uint8Array, from: number): number {
    const end = bytes.length;
    let index = this.#isEscaped ? from + 1 : from;
    while (index < end && bytes[index] !== quote) index += bytes[index] === backslash ? 2 : 1;
    this.#isInText = index >= end;
    this.#isEscaped = index > end;
    return index + 1;
  }
}

/** What a list or an object takes in memory, and any other value, in bytes. */
export const containerWeight = 64;
export const valueWeight = 16;

/** Why a message is better not parsed; undefined when it may be. */
export function jsonExcess(text: Uint8Array): JsonExcess | undefined {
  const { deepest, weight } = new JsonMeter().push(text);
  if (deepest > maxMessageDepth) return "deep";
  return weight > maxMemory ? "heavy" : undefined;
}

/** It has more than {@link maxMessageDepth} levels, or takes more than {@link maxMemory}. */
export type JsonExcess = "deep" | "heavy";
