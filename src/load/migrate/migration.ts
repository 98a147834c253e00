import { type Document, isMap, isScalar, isSeq } from "yaml";
import type { Expressions, TextPlace } from "../../core/formats/legacy-task/expressions.ts";
import type { Alias, RawStep } from "../../core/formats/legacy-task/legacy-form.ts";
import { escapeTemplate, parseTemplate, type TemplatePart } from "../../core/templates/parse-template.ts";
import { taskRoots } from "../../core/templates/scope.ts";
import { type AnyMap, commentOn } from "./yaml-edit.ts";

/** A step of the file, as it will be written. */
export interface StepSite {
  readonly raw: RawStep;
  /** The item of the list, `TYPE: BODY`. */
  readonly item: AnyMap;
  readonly body: AnyMap;
}

/** What the parts of one migration share. Lives while a file is rewritten. */
export class Migration {
  readonly document: Document;
  readonly expressions: Expressions;
  readonly aliases: ReadonlyMap<string, Alias>;
  /** The text of a file beside the task; undefined when there is none. */
  readonly read: (file: string) => string | undefined;
  /** Where extensions come from, by their names in the Eval. */
  readonly packages: ReadonlyMap<string, string>;
  readonly notes: string[] = [];
  readonly sites: StepSite[] = [];
  /** Variables of the shell that scripts cannot do without. */
  readonly variables = new Set<string>();
  /** Those that they use when they are there. */
  readonly optional = new Set<string>();

  constructor(parts: Pick<Migration, "document" | "expressions" | "aliases" | "read" | "packages">) {
    this.document = parts.document;
    this.expressions = parts.expressions;
    this.aliases = parts.aliases;
    this.read = parts.read;
    this.packages = parts.packages;
  }

  /** What the agent is told, in the new writing. */
  prompt = "";

  /** Rewrites a template. Only the older forms have `{agent.prompt}`: the prompt itself takes its place. */
  translate(text: string, place: TextPlace): string {
    const translated = withoutNeedlessEscapes(this.expressions.text(text, place));
    return withoutExpression(translated, "{agent.prompt}", this.prompt);
  }

  /** Says what could not be kept of a step: as a comment before it, and as a note. */
  lose({ item, raw }: Pick<StepSite, "item" | "raw">, text: string): void {
    commentOn(item, `migrated: ${text}`);
    this.notes.push(`${placeOf(raw)}: ${text}`);
  }

  /** Tells of something odd that makes no difference. */
  note({ raw }: Pick<StepSite, "raw">, text: string): void {
    this.notes.push(`${placeOf(raw)}: ${text}`);
  }
}

function placeOf({ path }: RawStep): string {
  return path
    .map((part, index) => (typeof part === "number" ? `[${part}]` : index === 0 ? part : `.${part}`))
    .join("");
}

/** A text that is no template in the older forms, written so that as one it gives itself; braces that need no escape stay. */
export function literalText(text: string): string {
  return withoutNeedlessEscapes(escapeTemplate(text));
}

/** Does that with every text in a node, at any depth. */
export function literalValues(node: unknown): void {
  if (isScalar(node)) {
    if (typeof node.value === "string") node.value = literalText(node.value);
  } else if (isSeq(node)) for (const item of node.items) literalValues(item);
  else if (isMap(node)) for (const each of node.items) literalValues(each.value);
}

/** The same template, with braces doubled only where they would be read as something else. */
export function withoutNeedlessEscapes(template: string): string {
  const parts = partsOf(template);
  const slim = parts.map((part) => (typeof part === "string" ? escapeSparingly(part) : part.text)).join("");
  return JSON.stringify(partsOf(slim)) === JSON.stringify(parts) ? slim : template;
}

/** The template with another one in the place of an expression. */
export function withoutExpression(template: string, expression: string, other: string): string {
  if (!template.includes(expression)) return template;
  const parts = partsOf(template).map((part) => {
    if (typeof part === "string") return escapeTemplate(part);
    return part.text === expression ? other : part.text;
  });
  return withoutNeedlessEscapes(parts.join(""));
}

/** Doubles the braces that begin an expression or stand together, and as many closing ones after them. */
function escapeSparingly(text: string): string {
  const expressions = new Set(expressionStarts(text));
  let open = 0;
  let written = "";
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    const together = text[at + 1] === "{" || text[at - 1] === "{";
    const opens = character === "{" && (together || expressions.has(at));
    const closes = character === "}" && open > 0;
    if (opens) open += 1;
    if (closes) open -= 1;
    written += opens || closes ? character + character : character;
  }
  return written;
}

function expressionStarts(text: string): number[] {
  let at = 0;
  return partsOf(text.replaceAll("{{", "  ")).flatMap((part) => {
    const start = at;
    at += typeof part === "string" ? part.length : part.text.length;
    return typeof part === "string" ? [] : [start];
  });
}

function partsOf(template: string): readonly TemplatePart[] {
  return parseTemplate(template, (root) => taskRoots.some((each) => each === root));
}
