import type { ExtensionSpec, Json } from "../../core/formats/model.ts";
import { type Expander, expanderOf } from "../../core/templates/expand.ts";
import { parseTemplate } from "../../core/templates/parse-template.ts";
import { resolveNames, type Scope, taskRoots } from "../../core/templates/scope.ts";

/**
 * Replaces the templates in the settings of an extension before there is a trial. Undefined when one of them has no
 * value yet.
 */
export function settingsExpander(
  { config, env }: Pick<ExtensionSpec, "config" | "env">,
  variables: Readonly<Record<string, string>>,
): Expander | undefined {
  const roots: ReadonlySet<string> = new Set(taskRoots);
  const known: Scope = new Map([["env", resolveNames(variables)]]);
  const isKnown = (text: string): boolean =>
    parseTemplate(text, (root) => roots.has(root)).every(
      (part) => typeof part === "string" || known.get(part.root)?.(part.names, part.variant) !== undefined,
    );
  return [config, env].flatMap(textsOf).every(isKnown) ? expanderOf(known) : undefined;
}

function textsOf(value: Json): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
}
