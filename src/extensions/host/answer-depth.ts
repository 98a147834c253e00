import type { Json } from "../../core/formats/model.ts";

/** Levels of arrays and objects that an answer may have: who handles it does so with a stack that has a limit. */
const deepest = 400;

/** Whether an answer is nested deeper than anybody can handle. */
export function isTooDeep(value: Json): boolean {
  return hasMoreLevels(value, deepest);
}

function hasMoreLevels(value: Json, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item: Json) => hasMoreLevels(item, levels - 1));
}
