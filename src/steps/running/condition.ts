import { expandText } from "../../core/templates/expand.ts";
import type { Scope } from "../../core/templates/scope.ts";

/**
 * Whether a step's `if` holds: `A == B` and `A != B` compare texts, anything else holds unless it is empty, `false` or
 * `0`. The sides are told apart before templates are replaced. Throws `task/template`.
 */
export function conditionHolds(condition: string, scope: Scope | undefined): boolean {
  const expand = (text: string): string => (scope === undefined ? text : expandText(text, scope)).trim();
  const comparison = /^(.*?)\s(==|!=)\s(.*)$/s.exec(condition);
  if (comparison === null) return !["", "false", "0"].includes(expand(condition));
  const [, left = "", operator, right = ""] = comparison;
  return (expand(left) === expand(right)) === (operator === "==");
}
