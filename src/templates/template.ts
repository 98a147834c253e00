import type { Json } from "../base/json.ts";

/** What is done with an expression's value before it goes into the text. */
export type Filter =
  | { readonly kind: "sh" }
  /** The value as it is, also where it would be quoted or escaped. */
  | { readonly kind: "raw" }
  /** The value, read as JSON when it is a text, and what a path leads to in it. */
  | { readonly kind: "json"; readonly path: string }
  /** A name after `|` that is not a filter. */
  | { readonly kind: "unknown"; readonly text: string };

/** `{ROOT.NAME.NAME:VARIANT | FILTER}`. */
export interface Expression {
  /** As written, braces included. */
  readonly text: string;
  readonly root: string;
  readonly names: readonly string[];
  readonly variant?: string;
  readonly filter?: Filter;
}

/** A template is texts and expressions, in order. */
export type TemplatePart = string | Expression;

/**
 * Reads a template. Only `{…}` whose first word is one of the roots is an expression; `{{` writes `{`, and `}}` writes `}`
 * where it closes an earlier `{{`. All other braces are text, as is everything after `$`, so that the shell keeps its own
 * `${x}`.
 */
export function parseTemplate(text: string, isRoot = isTaskRoot): readonly TemplatePart[] {
  if (!text.includes("{")) return text === "" ? [] : [text];
  const parts: TemplatePart[] = [];
  let literal = "";
  let escaped = 0;
  for (let at = 0; at < text.length;) {
    const two = text.slice(at, at + 2);
    if (two === "{{") {
      escaped += 1;
      literal += "{";
      at += 2;
    } else if (two === "}}" && escaped > 0) {
      escaped -= 1;
      literal += "}";
      at += 2;
    } else {
      const found = expressionAt(text, at, isRoot);
      if (found === undefined) literal += text.charAt(at);
      else {
        if (literal !== "") parts.push(literal);
        literal = "";
        parts.push(found);
      }
      at += found === undefined ? 1 : found.text.length;
    }
  }
  return literal === "" ? parts : [...parts, literal];
}

/** The text that a template of a task gives; undefined when it has expressions. */
export function plainText(template: string): string | undefined {
  const [text = "", ...others] = parseTemplate(template);
  return typeof text === "string" && others.length === 0 ? text : undefined;
}

/** Writes a text so that as a template it gives that text again, whatever the roots are. */
export function escapeTemplate(text: string): string {
  let escaped = 0;
  let written = "";
  for (const character of text) {
    if (character === "{") escaped += 1;
    const doubled = character === "{" || (character === "}" && escaped > 0);
    if (character === "}" && escaped > 0) escaped -= 1;
    written += doubled ? character + character : character;
  }
  return written;
}

/** `{ROOT.NAME:VARIANT | FILTER}`, at `lastIndex`, whatever the root is. */
export const expressionPattern = /\{\s*([A-Za-z_][\w-]*)((?:\.[\w-]+)*)(?::([\w-]+))?\s*(?:\|([^{}]*))?\}/y;

function expressionAt(text: string, at: number, isRoot: (root: string) => boolean): Expression | undefined {
  if (text[at] !== "{" || text[at - 1] === "$") return undefined;
  expressionPattern.lastIndex = at;
  const match = expressionPattern.exec(text);
  const root = match?.[1];
  if (match === null || root === undefined || !isRoot(root)) return undefined;
  const [whole, , dotted = "", variant, filter] = match;
  return {
    text: whole,
    root,
    names: dotted.split(".").slice(1),
    ...(variant === undefined ? {} : { variant }),
    ...(filter === undefined ? {} : { filter: parseFilter(filter.trim()) }),
  };
}

function parseFilter(text: string): Filter {
  if (text === "sh" || text === "raw") return { kind: text };
  const json = /^json(?:\s+(.+))?$/s.exec(text);
  return json === null ? { kind: "unknown", text } : { kind: "json", path: json[1] ?? "$" };
}

/**
 * Gives the value of what follows a root, such as `["a", "outputs", "id"]` after `steps`; undefined when there is no such
 * name. A root that has a value of its own gives it for no names.
 */
export interface Resolve extends Trust {
  (names: readonly string[], variant: string | undefined): Json | undefined;
}

/** What is known of the values of a root that only some texts have. */
export interface Trust {
  /** The task's author wrote them; see `isTrustedRoot`. */
  readonly trusted?: boolean;
}

/** What templates may refer to: roots by name. A root that is not there is no root, so that its braces are text. */
export type Scope = ReadonlyMap<string, Resolve>;

/** The roots of every task; the variables of enclosing `foreach` steps come on top. */
export const taskRoots = ["env", "random", "task", "steps", "agent", "workspace", "servers"] as const;

export function isTaskRoot(word: string): boolean {
  return taskRoots.some((root) => root === word);
}

/** Roots whose values come from the author, the command line, the shell or mcpvals itself. */
const trustedRoots: readonly string[] = ["env", "random", "task", "workspace", "servers"];

/**
 * Whether the values of a root are trusted. All others are what an agent, a server or a program gave in the trial: `agent`,
 * `steps`, what a step's outputs are made of, and the variable of a `foreach` over such values.
 */
export function isTrustedRoot(root: string, local: Trust | undefined): boolean {
  return local?.trusted === true || trustedRoots.includes(root);
}

/** A scope with more roots: the variable of a `foreach`, what a step gave. */
export function withLocals(
  scope: Scope,
  locals: Readonly<Record<string, Json>>,
  { trusted = false }: Trust = {},
): Scope {
  const roots = Object.entries(locals).map(([root, value]): [string, Resolve] => [
    root,
    Object.assign(resolveIn(value), { trusted }),
  ]);
  return new Map([...scope, ...roots]);
}

/** A root that stands for one JSON value; names lead into its objects and lists. */
export function resolveIn(value: Json): Resolve {
  return (names, variant) => {
    if (variant !== undefined) return undefined;
    let found: Json | undefined = value;
    for (const name of names) found = member(found, name);
    return found;
  };
}

/** A root that stands for no value itself, only for what it has names for. */
export function resolveNames(values: Readonly<Record<string, Json>>): Resolve {
  const resolve = resolveIn(values);
  return (names, variant) => (names.length === 0 ? undefined : resolve(names, variant));
}

function member(value: Json | undefined, name: string): Json | undefined {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Readonly<Record<string, Json>>)[name];
}
