import type { KeyPath } from "../key-path.ts";
import type { LenientReader } from "../lenient-reader.ts";

/** Refuses by name the parts that are there and say something: this version cannot honour them, and does not ignore them. */
export function refuseParts(
  parts: Readonly<Record<string, unknown>>,
  path: KeyPath,
  reader: LenientReader,
): void {
  for (const [key, value] of Object.entries(parts)) {
    if (!saysSomething(value)) continue;
    const hint = `Leave ${key} out; nothing that this version cannot look at is ignored.`;
    reader.refuse(`${key} is not known yet`, [...path, key], { at: "key", hint });
  }
}

/** Whether a part is more than empty. */
export function saysSomething(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}
