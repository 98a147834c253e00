import type { Json } from "../../core/formats/model.ts";

/** An object as it came off the wire: any of its values may be anything. */
export type WireObject = Readonly<Record<string, unknown>>;

/** An object off the wire; what is none has no values. */
export function objectOf(value: unknown): WireObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as WireObject) : {};
}

/** A text that says something. */
export function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** What was parsed from JSON is JSON; null stands for nothing in this protocol. */
export function jsonOf(value: unknown): Json | undefined {
  return value === undefined || value === null ? undefined : (value as Json);
}
