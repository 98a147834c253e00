import { formatKeyPath } from "../json.ts";
import { asObject, asText } from "../lenient.ts";
import type { Problem } from "../problem.ts";
import { partsOf } from "./check-text.ts";
import type { Locals } from "./template-names.ts";
import type { StepView } from "./view-steps.ts";

/**
 * Refuses an `if` that would always hold because it is no condition of ours, but a text: one with other operators than
 * `==` and `!=`, without spaces around them, or with quotes around a side.
 */
export function checkCondition({ body, bodyPath, isShort }: StepView, locals: Locals): Problem[] {
  const condition = isShort ? undefined : asText(asObject(body)["if"]);
  const wrong = condition === undefined ? undefined : wrongIn(condition, locals);
  if (wrong === undefined) return [];
  const path = [...bodyPath, "if"];
  const message = `${formatKeyPath(path)} is no condition: ${wrong.what}`;
  return [{ code: "config/invalid-value", message, path, at: "value", hint: wrong.hint }];
}

interface Wrong {
  readonly what: string;
  readonly hint: string;
}

const usual = "Write A == B or A != B, with spaces around the sign, or one text alone.";
const anyOperator = /===|!==|&&|\|\||<=|>=|==|!=|=|<|>/;
const spacedOperator = /(?:^|\s)(===|!==|&&|\|\||<=|>=|==|!=|=|<|>)(?=\s|$)/;

function wrongIn(condition: string, locals: Locals): Wrong | undefined {
  // What templates give is not looked at.
  const text = partsOf(condition, locals)
    .map((part) => (typeof part === "string" ? part : "x"))
    .join("");
  if (/^\s*!(?!=)/.test(text)) return { what: "! is no operator", hint: "Write A == false, or A != B." };
  const [, left, , right] = /^(.*?)\s(==|!=)\s(.*)$/s.exec(text) ?? [];
  const sides = left === undefined || right === undefined ? [text] : [left, right];
  const operator =
    sides.length === 1
      ? anyOperator.exec(text)?.[0]
      : sides.flatMap((side) => spacedOperator.exec(side)?.[1] ?? []).at(0);
  if (operator !== undefined) return wrongOperator(operator);
  const isQuoted = sides.some((side) => /^\s*(["'])[^]*\1\s*$/.test(side));
  return isQuoted ? { what: "the quotes would be part of the text", hint: quotes } : undefined;
}

const quotes =
  "Write texts without quotes: {steps.ID.outputs.NAME} == pod. Whether there is a text is asked by that text alone.";

function wrongOperator(operator: string): Wrong {
  switch (operator) {
    case "==":
    case "!=":
      return { what: `${operator} stands between two texts, once and with spaces around it`, hint: usual };
    case "&&":
    case "||":
      return {
        what: `${operator} is no operator`,
        hint: `${usual} For several conditions nest steps: a group with one, in it steps with another.`,
      };
    default:
      return { what: `${operator} is no operator`, hint: usual };
  }
}
