import type { Json, JsonObject } from "../../src/extension-sdk/index.ts";
import { isJsonObject } from "./json-object.ts";

/**
 * Whether a value of a database is the expected one. Numbers are compared by value. `true` and `false` are also 1 and 0, an
 * object or a list is also the text of its JSON, and two points in time are the same however they are written, since not
 * every database has these types.
 */
export function sameValue(expected: Json, found: Json): boolean {
  if (expected === found) return true;
  if (typeof expected === "boolean") return found === Number(expected);
  if (typeof expected === "string") return typeof found === "string" && sameTime(expected, found);
  if (typeof expected !== "object" || expected === null) return false;
  return sameJson(expected, typeof found === "string" ? jsonOf(found) : found);
}

/** Key order does not matter. */
function sameJson(left: Json, right: Json | undefined): boolean {
  if (left === right) return true;
  if (Array.isArray(left)) {
    return (
      Array.isArray(right) &&
      left.length === right.length &&
      left.every((item: Json, index) => sameJson(item, right[index]))
    );
  }
  return isJsonObject(left) && isJsonObject(right) && sameMembers(left, right);
}

function sameMembers(left: JsonObject, right: JsonObject): boolean {
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && sameJson(left[key] ?? null, right[key]))
  );
}

function jsonOf(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // A text that is no JSON, and so not this value.
    return undefined;
  }
}

const point =
  /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:(Z)|([+-]\d\d)(?::?(\d\d))?)?$/;

function sameTime(left: string, right: string): boolean {
  const time = timeOf(left);
  return time !== undefined && time === timeOf(right);
}

/** A text that is the same for the same point in time; those without a zone are never the same as those with one. */
function timeOf(text: string): string | undefined {
  const parts = point.exec(text);
  if (parts === null) return undefined;
  const [, date, minutes, seconds = "00", fraction = "", utc, hours, more = "00"] = parts;
  const zone = utc ?? (hours === undefined ? "" : `${hours}:${more}`);
  const at = Date.parse(`${date}T${minutes}:${seconds}${zone === "" ? "Z" : zone}`);
  if (Number.isNaN(at)) return undefined;
  return `${zone === "" ? "local" : "utc"} ${at} ${fraction.replace(/0+$/, "")}`;
}
