import { escapeTemplate } from "../../templates/parse-template.ts";
import type { KeyPath } from "../json.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { Json, JsonObject } from "../model.ts";
import type { Alias, RawStep } from "./legacy-form.ts";

/** Which expressions a text may have, besides `env`, `random` and `agent`. */
export interface TextRules {
  /** Whether outputs of earlier steps can be used. */
  readonly steps: boolean;
}

/** Where a text stands: its step, and its place in the file. */
export interface TextPlace extends TextRules {
  readonly step: RawStep;
  readonly path: KeyPath;
}

interface World {
  readonly reader: LenientReader;
  readonly steps: readonly RawStep[];
  readonly aliases: ReadonlyMap<string, Alias>;
}

/** Rewrites the templates of one task, and remembers what they use. Lives while the task is read. */
export class Expressions {
  /** Ids of steps whose outputs some template uses. */
  readonly used = new Set<string>();
  /** Whether a random port is used. */
  usesPort = false;
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** Rewrites a text that the older tool reads as a template. */
  text(text: string, place: TextPlace): string {
    const translated = translateTemplate(text, (expression) => this.#expression(expression, place));
    if (translated.hasText) this.#noteText(place.path);
    return translated.template;
  }

  /** Rewrites the texts of a record. */
  record(
    texts: Readonly<Record<string, string>> | undefined,
    place: TextPlace,
  ): Readonly<Record<string, string>> {
    const entries = Object.entries(texts ?? {}).map(
      ([name, value]) => [name, this.text(value, { ...place, path: [...place.path, name] })] as const,
    );
    return Object.fromEntries(entries);
  }

  /** Rewrites a prompt: it may use outputs of setup steps, and nothing else. */
  prompt(text: string, path: KeyPath): string {
    const setup = this.#world.steps.filter((step) => step.phase === "setup");
    const translate: TranslateExpression = (expression) => {
      const ours = this.#output(expression, setup);
      if (ours === undefined && expression.startsWith("steps."))
        this.#world.reader.note(`{${expression}} means no output of a setup step and is taken as text`, path);
      return ours;
    };
    return translateTemplate(text, translate).template;
  }

  #expression(expression: string, place: TextPlace): string | undefined {
    if (/^env\.\w+$/.test(expression)) return expression;
    if (expression === "random.id") return expression;
    if (expression === "random.port") {
      this.usesPort = true;
      return expression;
    }
    if (expression === "agent.output" || expression === "agent.prompt") {
      if (place.step.phase === "setup") this.#refuseAgent(expression, place.path);
      return expression;
    }
    return place.steps ? this.#output(expression, this.#before(place.step)) : undefined;
  }

  /** The steps whose outputs a step can use: earlier ones of its phase, in cleanup also those of setup. */
  #before(step: RawStep): readonly RawStep[] {
    const { steps } = this.#world;
    const own = steps.filter((each) => each.phase === step.phase);
    const earlier = own.slice(0, own.indexOf(step));
    return step.phase === "cleanup"
      ? [...steps.filter((each) => each.phase === "setup"), ...earlier]
      : earlier;
  }

  #output(expression: string, steps: readonly RawStep[]): string | undefined {
    const match = /^steps\.(.+)\.([\w-]+)$/.exec(expression);
    if (match === null) return undefined;
    const [, named, output = ""] = match;
    const step = steps.findLast((each) => named === each.id || this.#typesOf(each).includes(named ?? ""));
    if (step === undefined) return undefined;
    this.used.add(step.id);
    return `steps.${step.id}.outputs.${output}`;
  }

  /** A step's type as the eval names it, and as the task does. */
  #typesOf({ type }: RawStep): readonly string[] {
    const [alias = "", ...rest] = type.split(".");
    const named = this.#world.aliases.get(alias)?.name;
    return named === undefined ? [] : [[named, ...rest].join("."), type];
  }

  #refuseAgent(expression: string, path: KeyPath): void {
    this.#world.reader.refuse(`{${expression}} is used in setup, before the agent has run`, path, {
      hint: "Use it in verify or cleanup.",
    });
  }

  #noteText(path: KeyPath): void {
    this.#world.reader.note(
      "braces that are not an expression are taken as text; mcpchecker refuses such a text",
      path,
    );
  }
}

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

/**
 * Turns a path of the older forms into RFC 9535. Dots separate object keys, `[n]` indexes lists, a number after a dot is a
 * key, an empty path is the whole document: `items[0].name`. Gives undefined for what is no such path.
 */
export function translateFieldPath(path: string): string | undefined {
  const trimmed = path.trim();
  const segments = trimmed.replace(/^(?:\$(?=[.[]|$))?\.?/, "");
  if (segments === "") return "$";
  if (!/^(?:[^.[\]]+|\[\d+\])(?:\.[^.[\]]+|\[\d+\])*$/.test(segments)) return undefined;
  const parts = [...segments.matchAll(/\[(\d+)\]|[^.[\]]+/g)];
  return `$${parts.map(([key, index]) => (index === undefined ? member(key) : `[${Number(index)}]`)).join("")}`;
}

function member(key: string): string {
  if (/^[A-Za-z_]\w*$/.test(key)) return `.${key}`;
  return `[${JSON.stringify(key)}]`;
}
