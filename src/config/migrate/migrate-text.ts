import { isMap, isScalar, isSeq } from "yaml";
import { escapeTemplate, parseTemplate, type TemplatePart } from "../../core/templates/parse-template.ts";
import { taskRoots } from "../../core/templates/scope.ts";

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
