import { isJsonObject } from "../formats/json.ts";
import type { Json } from "../formats/model.ts";
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
