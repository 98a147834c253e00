import type { Json, JsonObject } from "../model.ts";
import { escapeTemplate } from "../../templates/parse-template.ts";

/** A template of the older forms in our own writing. */
export interface TranslatedTemplate {
  readonly template: string;
  /** Whether braces are left that mean nothing in the older forms: their tool refuses such a text. */
  readonly hasText: boolean;
}

/** Gives our expression, without its braces, for one of theirs; undefined when there is none. */
export type TranslateExpression = (expression: string) => string | undefined;

/**
 * Rewrites a template of the older forms: `{…}` as `translate` says, `${NAME}` as `env.NAME`; all other braces become text.
 */
export function translateTemplate(text: string, translate: TranslateExpression): TranslatedTemplate {
  const writer = new TemplateWriter();
  let end = 0;
  for (const match of text.matchAll(/\$\{(\w+)\}|\{([^{}]*)\}/g)) {
    writer.text(text.slice(end, match.index));
    const [whole, variable, inner = ""] = match;
    writer.expression(whole, translate(variable === undefined ? inner.trim() : `env.${variable}`));
    end = match.index + whole.length;
  }
  writer.text(text.slice(end));
  return { template: writer.template, hasText: writer.hasText };
}

/** Escapes every text of a JSON value, so that as a template it gives the value again. */
export function escapeJson(value: Json): Json {
  if (typeof value === "string") return escapeTemplate(value);
  if (Array.isArray(value)) return value.map((item: Json) => escapeJson(item));
  return typeof value === "object" && value !== null ? escapeObject(value as JsonObject) : value;
}

/** Escapes every text of a JSON object. */
export function escapeObject(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, escapeJson(member)]));
}

/** Writes texts and expressions one after the other, escaping the texts as one. */
class TemplateWriter {
  template = "";
  hasText = false;
  #open = 0;

  text(text: string): void {
    for (const character of text) {
      if (character === "{" || character === "}") this.hasText = true;
      if (character === "{") this.#open += 1;
      const doubled = character === "{" || (character === "}" && this.#open > 0);
      if (character === "}" && this.#open > 0) this.#open -= 1;
      this.template += doubled ? character + character : character;
    }
  }

  /** After a `$` braces are always text. */
  expression(written: string, ours: string | undefined): void {
    if (ours === undefined || this.template.endsWith("$")) this.text(written);
    else this.template += `{${ours}}`;
  }
}
