import { didYouMean } from "../formats/did-you-mean.ts";
import { isJsonObject } from "../formats/json.ts";
import type { Json } from "../formats/model.ts";
import { previewJson } from "../formats/read-json.ts";
import { type Lookup, lookupsIn, wayEnd, type WayEnd } from "../templates/select-json.ts";

/** What it is worth that a path leads nowhere. */
export interface Absence {
  /** Why it proves nothing: what should hold the place is not there, or cannot hold it. */
  readonly problem?: string;
  /** Why the path may be misspelt. */
  readonly doubt?: string;
}

/**
 * Says what it is worth that a path (RFC 9535) leads nowhere in a value. It is evidence when its way is there as far as it
 * is one way: of `$.a.b`, and of `$.a[?@.b].c`, that is `$.a`. Throws `task/json-path`.
 */
export function absenceAt(value: Json, path: string): Absence {
  if (path === "$") return {};
  const end = wayEnd(value, path);
  const near = nearestName(end);
  const meant = near === undefined ? "" : `; there is ${JSON.stringify(near)} there, did you mean that?`;
  const there = end.values.find((each) => each !== null) ?? (end.isOneWay ? end.values[0] : undefined);
  if (there === undefined) return {};
  if (!canHold(there, end.wants)) {
    const is = `${end.path} is ${previewJson(there, shownValue)}, which has no ${end.wants === "entry" ? "entries" : "members"}`;
    return { problem: `it proves nothing that ${path} leads to nothing: ${is}` };
  }
  if (!end.isSettled)
    return {
      problem: `it proves nothing that ${path} leads to nothing: ${end.missing} leads to nothing already${meant}`,
    };
  return near === undefined ? {} : { doubt: `${path} leads to nothing${meant}` };
}

const shownValue = 40;

function canHold(value: Json, wants: WayEnd["wants"]): boolean {
  if (wants === "entry") return Array.isArray(value);
  return wants === "member" ? isJsonObject(value) : typeof value === "object" && value !== null;
}

/** Of shorter names, too many are near one another. */
const shortestName = 4;

/** Members of a value whose names are looked at. */
const mostLooked = 200;

/** The name of a member beside one that is looked for and is not there, when the one may be meant with the other. */
function nearestName({ values, names, wants }: WayEnd): string | undefined {
  // `..` looks for members of all that is below.
  const holders = wants === "some" ? [...values, ...values.flatMap(inside)] : values;
  for (const name of names) {
    const near = nearName({ name, holders });
    if (near !== undefined) return near;
  }
  return undefined;
}

/**
 * Why a path may look for something else than its author means, wherever it leads: a name in a filter, or in a list of names,
 * that none of the values has which it is looked for in, and one that is near. Throws `task/json-path`.
 */
export function slipIn(value: Json, path: string): string | undefined {
  for (const lookup of lookupsIn(value, path)) {
    const near = nearName(lookup);
    if (near !== undefined)
      return `${path} looks for ${JSON.stringify(lookup.name)}; there is ${JSON.stringify(near)} there, did you mean that?`;
  }
  return undefined;
}

function nearName({ name, holders }: Lookup): string | undefined {
  const present = new Set(
    holders.flatMap((holder) => (isJsonObject(holder) ? Object.keys(holder).slice(0, mostLooked) : [])),
  );
  if (present.has(name) || name.length < shortestName) return undefined;
  const near = didYouMean(name, present);
  // "user2" beside "user1" is another user.
  return near !== undefined && withoutDigits(near) !== withoutDigits(name) ? near : undefined;
}

function inside(value: Json): readonly Json[] {
  if (Array.isArray(value)) return value.slice(0, mostLooked);
  return isJsonObject(value) ? Object.values(value).slice(0, mostLooked) : [];
}

function withoutDigits(name: string): string {
  return name.replaceAll(/\d+/g, "#");
}
