import { formatKeyPath, isJsonObject, type KeyPath } from "../json.ts";
import type { Json } from "../model.ts";
import type { Problem } from "../problem.ts";

/**
 * Refuses keys that could not be kept: a variable, a server or an argument named `__proto__` would be lost without a word.
 * The document is at most as deep as `readJson` lets it be.
 */
export function checkKeys(value: Json, path: KeyPath = []): Problem[] {
  if (Array.isArray(value)) return value.flatMap((item: Json, index) => checkKeys(item, [...path, index]));
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([key, member]) => {
    const place = [...path, key];
    return key === "__proto__" ? [refused(place)] : checkKeys(member, place);
  });
}

function refused(path: KeyPath): Problem {
  return {
    code: "config/invalid-value",
    message: `${formatKeyPath(path)}: nothing can be named __proto__`,
    path,
    at: "key",
    hint: "Choose another name.",
  };
}
