import { asObject } from "./lenient.ts";

/** A member whatever the case of its key, with the key as written; what is empty is as if it were absent. */
export function memberOf(document: unknown, name: string): readonly [key: string, value: unknown] {
  const object = asObject(document);
  const key = Object.hasOwn(object, name)
    ? name
    : (Object.keys(object).find((each) => each.toLowerCase() === name.toLowerCase()) ?? name);
  return [key, object[key] ?? undefined];
}
