import { expandJsonExpectations, expandTextExpectation } from "../core/checks/expectations.ts";
import type { Json } from "../core/formats/model.ts";
import {
  type JsonExpectation,
  kindOf,
  type Step,
  type TextExpectation,
  type TextRole,
} from "../core/formats/step.ts";
import { type Expander, loopItems, refuseEmptySearch } from "../core/templates/expand.ts";

/**
 * Replaces the templates in a step's own values as its kind says, but not in `id`, `name`, `if`, `outputs` and the steps inside
 * it. In the text of a shell, values from outside become variables. Throws `task/unfit-value` for an empty value from outside in
 * a variable or argument of a program that may search for it.
 */
export function expandStep<S extends Step>(step: S, expander: Expander): S {
  const { model, texts } = kindOf(step.type);
  const variables: Record<string, string> = {};
  const expandAs = (role: TextRole, value: unknown, key: string): unknown => {
    if (role.role !== "text") return expandValue(role.role, value, expander);
    if (Array.isArray(value)) return value.map((item) => expandAs(role, item, key));
    const place = role.place(step, { key, resolve: expander.text });
    if (place !== "shell") return expander.placed(value as string, place);
    const shell = expander.shell(value as string);
    Object.assign(variables, shell.variables);
    return shell.text;
  };
  const expand = (value: unknown, path: string, pattern: string, key: string): unknown => {
    const role = texts[path] ?? texts[pattern];
    if (role !== undefined) return expandAs(role, value, key);
    if (typeof value !== "object" || value === null) return value;
    return mapMembers(value, (member, name) => expand(member, `${path}.${name}`, `${path}.*`, name));
  };
  const expanded = mapMembers(step, (value, key) => (key in model ? expand(value, key, "", key) : value));
  if (step.type === "command") refuseEmpty(step.run, Object.values(step.env), expander);
  if (step.type === "script" && "inline" in step.source)
    refuseEmpty(step.source.inline, [...step.args, ...Object.values(step.env)], expander);
  const env = "env" in expanded ? { env: { ...(expanded["env"] as object), ...variables } } : {};
  const trusted = step.type === "foreach" ? { trusted: expander.trusts(step.in) } : {};
  return { ...expanded, ...env, ...trusted } as S;
}

function expandValue(role: Exclude<TextRole["role"], "text">, value: unknown, expander: Expander): unknown {
  switch (role) {
    case "fixed":
      return value;
    case "wanted":
      return expander.wanted(value as string);
    case "judged text":
      return expander.text(value as string);
    case "text expectation":
      return typeof value === "string"
        ? expander.text(value)
        : expandTextExpectation(value as TextExpectation, expander);
    case "JSON expectations":
      return expandJsonExpectations(value as readonly JsonExpectation[], expander);
    case "JSON":
    case "JSON Schema":
      return expander.json(value as Json);
    case "items": {
      const items = expander.json(value as Json);
      return typeof value === "string" ? loopItems(items, value) : items;
    }
  }
}

function mapMembers(object: object, map: (value: unknown, key: string) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value, key)]));
}

function refuseEmpty(program: string, given: readonly string[], expander: Expander): void {
  for (const template of given)
    if (!expander.trusts(template)) refuseEmptySearch(program, template, expander.text(template));
}
