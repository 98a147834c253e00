import { type JsonExcess, mostMemory } from "../../core/formats/json-meter.ts";
import type { Json } from "../../core/formats/model.ts";

/** Levels of arrays and objects that an answer may have: who handles it does so with a stack that has a limit. */
export const deepestAnswer = 400;

/** What is wrong with an answer that is better not parsed. */
export const excessText: Readonly<Record<JsonExcess, string>> = {
  deep: "is nested too deeply",
  heavy: `has so many values that it would take more than ${mostMemory / 1024 / 1024} MiB of memory`,
};

/** Whether an answer is nested deeper than anybody can handle. */
export function isTooDeep(value: Json): boolean {
  return hasMoreLevels(value, deepestAnswer);
}

function hasMoreLevels(value: Json, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item: Json) => hasMoreLevels(item, levels - 1));
}
