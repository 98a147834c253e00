import type { Json } from "./model.ts";
import { formatKeyPath, type KeyPath } from "./json.ts";
import type { Problem } from "./problem.ts";
import { longestExpansion, TextRoom } from "../templates/text-room.ts";
import { DocumentTooLarge, readJson } from "./read-json.ts";

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

/**
 * Copies a document, replacing `${VAR}` and `${VAR:-default}` in every string value; `$${` writes a literal `${`.
 * As in a shell, the default also stands for an empty variable. Keys are left as they are, members that are undefined
 * and may be absent are dropped, and what is not JSON otherwise (functions, dates, cycles, NaN) becomes a problem.
 */
export function interpolate(
  document: unknown,
  lookup: LookupVariable,
  mayBeAbsent: (path: KeyPath) => boolean = () => false,
): Interpolation {
  const room = new TextRoom(tooLong);
  const state: State = { lookup, problems: [], templates: new Map(), variables: new Map(), room };
  const { problems, templates, variables } = state;
  const text = (written: string, path: KeyPath): string => expand(written, path, state);
  return {
    value: readJson(document, { subject: "the config", problems, text, mayBeAbsent }),
    problems,
    templates,
    variables,
  };
}

function tooLong(): Error {
  return new DocumentTooLarge(`its variables give more than ${longestExpansion} characters`);
}

interface State {
  readonly lookup: LookupVariable;
  readonly problems: Problem[];
  readonly templates: Map<string, string>;
  readonly variables: Map<string, string>;
  /** For the values of variables. */
  readonly room: TextRoom;
}

/** `$${`, or `${NAME}`, or `${NAME:-default}`, or any other `${`. */
const reference = /\$\$\{|\$\{(?:([A-Za-z_]\w*)(?::-([^{}]*))?\})?/g;

function expand(text: string, path: KeyPath, state: State): string {
  if (!text.includes("${")) return text;
  const expanded = text.replaceAll(reference, (match: string, name?: string, fallback?: string) => {
    if (match === "$${") return "${";
    if (name === undefined) return malformed(path, state);
    return state.room.take(valueOf(name, fallback, { path, state }));
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
    message: `${formatKeyPath(path)}: invalid variable syntax after "\${"`,
    path,
    at: "value",
    hint: "Write ${NAME} or ${NAME:-default} (no braces in the default); $${ writes a literal ${.",
  });
  return "${";
}
