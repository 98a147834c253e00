import type { Json } from "./model.ts";
import { formatKeyPath, type KeyPath } from "./key-path.ts";
import type { Problem } from "./problem.ts";

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

/** Deepest nesting that a config may have. */
export const maxDepth = 200;
/** Most values (of any kind, at any depth) that a config may have. */
export const maxValues = 200_000;

/**
 * Copies a document, replacing `${VAR}` and `${VAR:-default}` in every string value; `$${` writes a literal `${`.
 * As in a shell, the default also stands for an empty variable. Keys are left as they are, undefined members are
 * dropped, and what is not JSON (functions, dates, cycles, NaN) becomes a problem.
 */
export function interpolate(document: unknown, lookup: LookupVariable): Interpolation {
  const state: State = { lookup, problems: [], templates: new Map(), variables: new Map(), values: 0 };
  const value = copyAll(document, state);
  const { problems, templates, variables } = state;
  return { value, problems, templates, variables };
}

interface State {
  readonly lookup: LookupVariable;
  readonly problems: Problem[];
  readonly templates: Map<string, string>;
  readonly variables: Map<string, string>;
  values: number;
}

class TooManyValues extends Error {}

function copyAll(document: unknown, state: State): Json {
  try {
    return copy(document, [], state);
  } catch (error) {
    if (!(error instanceof TooManyValues)) throw error;
    state.problems.splice(0);
    return refuse(`more than ${maxValues} values`, [], state);
  }
}

function copy(value: unknown, path: KeyPath, state: State): Json {
  state.values += 1;
  if (state.values > maxValues) throw new TooManyValues();
  if (typeof value === "string") return expand(value, path, state);
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number") {
    return Number.isFinite(value) ? value : refuse(`${value} is not a number that JSON has`, path, state);
  }
  if (path.length >= maxDepth) return refuse(`nested deeper than ${maxDepth} levels`, path, state);
  if (Array.isArray(value)) return value.map((item, index) => copy(item, [...path, index], state));
  if (isPlainObject(value)) return copyObject(value, path, state);
  return refuse(`${describeKind(value)} is not JSON`, path, state);
}

function copyObject(value: object, path: KeyPath, state: State): Json {
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([key, member]): [string, Json] => [key, copy(member, [...path, key], state)]);
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
  if (typeof value !== "object" || value === null) return `a value of type ${typeof value}`;
  const made: unknown = (value as { constructor?: unknown }).constructor;
  return typeof made === "function" && made.name !== "" ? `a ${made.name}` : "this object";
}

function refuse(message: string, path: KeyPath, state: State): null {
  const where = path.length === 0 ? "the config" : shorten(formatKeyPath(path));
  state.problems.push({ code: "config/invalid-value", message: `${where}: ${message}`, path, at: "value" });
  return null;
}

function shorten(text: string): string {
  return text.length <= 120 ? text : `${text.slice(0, 80)}…`;
}

/** `$${`, or `${NAME}`, or `${NAME:-default}`, or any other `${`. */
const reference = /\$\$\{|\$\{(?:([A-Za-z_]\w*)(?::-([^{}]*))?\})?/g;

function expand(text: string, path: KeyPath, state: State): string {
  if (!text.includes("${")) return text;
  const expanded = text.replaceAll(reference, (match: string, name?: string, fallback?: string) => {
    if (match === "$${") return "${";
    if (name === undefined) return malformed(path, state);
    return valueOf(name, fallback, { path, state });
  });
  state.templates.set(formatKeyPath(path), text);
  return expanded;
}

function valueOf(name: string, fallback: string | undefined, place: { path: KeyPath; state: State }): string {
  const { path, state } = place;
  const value = state.lookup(name);
  if (value !== undefined) state.variables.set(name, value);
  if (fallback !== undefined) return value === undefined || value === "" ? fallback : value;
  if (value !== undefined) return value;
  state.problems.push({
    code: "config/unset-variable",
    message: `${formatKeyPath(path)}: the variable ${name} is not set`,
    path,
    at: "value",
    text: `\${${name}`,
    hint: `Set ${name}, pass --env ${name}=VALUE, or write \${${name}:-default}; $\${ writes a literal \${.`,
  });
  return "";
}

function malformed(path: KeyPath, state: State): string {
  state.problems.push({
    code: "config/invalid-value",
    message: `${formatKeyPath(path)}: "\${" begins no variable`,
    path,
    at: "value",
    hint: "Write ${NAME} or ${NAME:-default} (no braces in the default); $${ writes a literal ${.",
  });
  return "${";
}
