import { isJsonObject } from "./json.ts";
import type { Json } from "./model.ts";
import { selectJson } from "../templates/select-json.ts";

/**
 * A JSON value without the places that some paths (RFC 9535) lead to: members of objects and entries of lists are taken
 * out; the value itself cannot be. Throws `task/json-path`.
 */
export function withoutPaths(value: Json, paths: readonly string[]): Json {
  const out: Places = { taken: false, below: new Map() };
  for (const path of paths) mark(value, path, out);
  return copy(value, out);
}

/**
 * Whether some paths take out all that a value could be compared by: every text, number and empty list or object that is
 * in it. Of an empty list or object, whether they take out whatever such a one may have. Throws `task/json-path`.
 */
export function leavesNothing(value: Json, paths: readonly string[]): boolean {
  if (paths.length === 0) return false;
  const compared = isEmpty(value) ? filled(value) : value;
  const out: Places = { taken: false, below: new Map() };
  for (const path of paths) mark(compared, path, out);
  return isAllTaken(compared, out);
}

function isEmpty(value: Json): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** A list, or an object, with what no path can name but by chance. */
function filled(value: Json): Json {
  const entries = Array.from({ length: 20 }, (_, index) => [`\uE000${index}`, index] as const);
  return Array.isArray(value) ? entries.map(([text]) => text) : Object.fromEntries(entries);
}

function isAllTaken(value: Json, places: Places | undefined): boolean {
  if (places === undefined) return false;
  if (places.taken) return true;
  if (typeof value !== "object" || value === null || isEmpty(value)) return false;
  const members: readonly (readonly [string | number, Json])[] = Array.isArray(value)
    ? value.map((item: Json, index) => [index, item] as const)
    : Object.entries(value);
  return members.every(([key, member]) => isAllTaken(member, places.below.get(key)));
}

/** Places that are taken out, and those on the way to them. */
interface Places {
  taken: boolean;
  readonly below: Map<string | number, Places>;
}

function mark(value: Json, path: string, out: Places): void {
  for (const keys of selectJson(value, path).places) {
    let place = out;
    for (const key of keys) place = below(place, key);
    place.taken = true;
  }
}

function below(place: Places, key: string | number): Places {
  const known = place.below.get(key);
  if (known !== undefined) return known;
  const made: Places = { taken: false, below: new Map() };
  place.below.set(key, made);
  return made;
}

function copy(value: Json, { below: places }: Places): Json {
  if (places.size === 0) return value;
  const isKept = (key: string | number): boolean => places.get(key)?.taken !== true;
  const inside = (key: string | number, member: Json): Json => {
    const place = places.get(key);
    return place === undefined ? member : copy(member, place);
  };
  if (Array.isArray(value)) {
    const entries = value.map((item: Json, index) => [index, item] as const);
    return entries.filter(([index]) => isKept(index)).map(([index, item]) => inside(index, item));
  }
  if (!isJsonObject(value)) return value;
  const members = Object.entries(value).filter(([key]) => isKept(key));
  return Object.fromEntries(members.map(([key, member]) => [key, inside(key, member)]));
}
