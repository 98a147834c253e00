/** What is done with an expression's value before it goes into the text. */
export type Filter =
  | { readonly kind: "sh" }
  /** The value as it is, also where it would be quoted or escaped. */
  | { readonly kind: "raw" }
  /** The value, read as JSON when it is a text, and what a path leads to in it. */
  | { readonly kind: "json"; readonly path: string }
  /** A name after `|` that is no filter. */
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
export function parseTemplate(text: string, isRoot: (root: string) => boolean): readonly TemplatePart[] {
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
