import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";

/** Keywords that say which of several rules must hold. */
const joining = ["anyOf", "oneOf", "allOf"] as const;

/**
 * What a schema says, besides its own `required`, about nothing but the names of members, such as which of them is needed or
 * that only one may be given: whatever the members are, that can be checked. Undefined when it says nothing of the kind.
 */
export function nameRules(schema: JsonObject): JsonObject | undefined {
  const { anyOf, oneOf, allOf, not } = schema;
  const all = listOf(allOf).flatMap((each) => {
    const rules = isAboutNames(each) ? each : isJsonObject(each) ? nameRules(each) : undefined;
    return rules === undefined ? [] : [rules];
  });
  const found: readonly (readonly [string, Json | undefined])[] = Object.entries({
    anyOf: isListAboutNames(anyOf) ? anyOf : undefined,
    oneOf: isListAboutNames(oneOf) ? oneOf : undefined,
    not: isAboutNames(not) ? not : undefined,
    allOf: all.length === 0 ? undefined : all,
  });
  const rules = found.flatMap(([name, rule]) => (rule === undefined ? [] : [[name, rule] as const]));
  return rules.length === 0 ? undefined : Object.fromEntries(rules);
}

function isAboutNames(schema: Json | undefined): boolean {
  if (!isJsonObject(schema)) return false;
  return Object.entries(schema).every(([keyword, rule]) => {
    if (keyword === "required") return true;
    if (keyword === "not") return isAboutNames(rule);
    return joining.some((each) => each === keyword) && isListAboutNames(rule);
  });
}

function isListAboutNames(list: Json | undefined): boolean {
  return Array.isArray(list) && list.length > 0 && list.every((each: Json) => isAboutNames(each));
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}
