import { selectJson } from "../templates/select-json.ts";
import { type Json, valueAt } from "./json.ts";

/** The members that some paths lead to, by the object or list that has them, and whether one leads to the value itself. */
function membersAt(
  value: Json,
  paths: readonly string[],
): { readonly isWhole: boolean; readonly isTaken: (holder: object, key: string | number) => boolean } {
  const places = paths.flatMap((path) => selectJson(value, path).places);
  const taken = Map.groupBy(places, (place) => valueAt(value, place.slice(0, -1)));
  const keys = new Map(
    [...taken].map(([holder, all]) => [holder, new Set(all.map((place) => place.at(-1)))]),
  );
  return {
    isWhole: places.some((place) => place.length === 0),
    isTaken: (holder, key) => keys.get(holder)?.has(Array.isArray(holder) ? Number(key) : key) === true,
  };
}

/**
 * A JSON value without the places that some paths (RFC 9535) lead to: members of objects and entries of lists are taken
 * out; the value itself cannot be. Throws `task/json-path`.
 */
export function withoutPaths(value: Json, paths: readonly string[]): Json {
  if (paths.length === 0) return value;
  const { isTaken } = membersAt(value, paths);
  const copy = (each: Json): Json => {
    if (typeof each !== "object" || each === null) return each;
    const rest = Object.entries(each).filter(([key]) => !isTaken(each, key));
    const members = rest.map(([key, member]) => [key, copy(member)] as const);
    return Array.isArray(each) ? members.map(([, member]) => member) : Object.fromEntries(members);
  };
  return copy(value);
}

/**
 * Whether some paths take out all that a value could be compared by: every text, number and empty list or object that is
 * in it. Of an empty list or object, whether they take out whatever such a one may have. Throws `task/json-path`.
 */
export function leavesNothing(value: Json, paths: readonly string[]): boolean {
  if (paths.length === 0) return false;
  const compared = hasMembers(value) || typeof value !== "object" || value === null ? value : filled(value);
  const { isWhole, isTaken } = membersAt(compared, paths);
  const isGone = (each: Json): boolean =>
    hasMembers(each) && Object.entries(each).every(([key, member]) => isTaken(each, key) || isGone(member));
  return isWhole || isGone(compared);
}

function hasMembers(value: Json): value is Json & object {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

/** A list, or an object, with what no path can name but by chance. */
function filled(value: object): Json {
  const names = Array.from({ length: 20 }, (_, index) => `\uE000${index}`);
  return Array.isArray(value) ? names : Object.fromEntries(names.map((name) => [name, name]));
}
