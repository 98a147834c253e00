/** Whether a JSON value is an object: not null, not an array. */
export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Any JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export type JsonObject = { readonly [key: string]: Json };

/** An object type whose optional members are absent rather than undefined. */
export type WithoutUndefined<T> = { [K in keyof T]: Exclude<T[K], undefined> };

/** Leaves out the members that are undefined. */
export function withoutUndefined<T extends object>(value: T): WithoutUndefined<T> {
  // A list of members takes four times as long.
  const kept: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    const member: unknown = value[key as keyof T];
    if (member !== undefined) kept[key] = member;
  }
  return kept as WithoutUndefined<T>;
}

/** A type with all members read-only, and optional ones absent rather than undefined, at any depth; JSON values stay as they are. */
export type Exact<T> = [JsonObject] extends [T] ? T : ExactMembers<T>;
type ExactMembers<T> = T extends readonly (infer Item)[]
  ? readonly Exact<Item>[]
  : string extends keyof T
    ? { readonly [K in keyof T]: Exact<T[K]> }
    : T extends object
      ? { readonly [K in keyof T as undefined extends T[K] ? never : K]: Exact<T[K]> } & {
          readonly [K in keyof T as undefined extends T[K] ? K : never]?: Exact<Exclude<T[K], undefined>>;
        }
      : T;

/** Leaves out the members that are undefined, at any depth. */
export function exact<T>(value: T): Exact<T> {
  return leaveOut(value) as Exact<T>;
}

function leaveOut(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(leaveOut);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([key, member]) => [key, leaveOut(member)]));
}

/** The object with each of its values changed. */
export function mapValues<T, U>(
  object: Readonly<Record<string, T>>,
  change: (value: T, key: string) => U,
): Record<string, U> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value, key)]));
}

/** The value with each of its texts changed, at any depth; keys stay. */
export function mapTexts(value: JsonObject, change: (text: string) => Json): JsonObject;
export function mapTexts(value: Json, change: (text: string) => Json): Json;
export function mapTexts(value: Json, change: (text: string) => Json): Json {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item: Json) => mapTexts(item, change));
  return isJsonObject(value) ? mapValues(value, (member) => mapTexts(member, change)) : value;
}

/** JSON that is the same for equal values: the members of objects are in the order of their keys. */
export function canonicalJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  let members = "";
  for (const key of Object.keys(value).sort())
    members += `${members === "" ? "" : ","}${JSON.stringify(key)}:${canonicalJson(value[key] ?? null)}`;
  return `{${members}}`;
}

/** A value of which the numbers, at any depth, are without the rounding errors of their last digits. */
export function withoutNoise<T>(value: T): T {
  if (typeof value === "number") return Number(value.toPrecision(12)) as T;
  if (Array.isArray(value)) return value.map((item: unknown) => withoutNoise(item)) as T;
  if (typeof value !== "object" || value === null) return value;
  return mapValues(value as Readonly<Record<string, unknown>>, (member) => withoutNoise(member)) as T;
}

/** About so many tokens of a model JSON takes: four characters each. */
export function estimateTokens(json: Json): number {
  return Math.ceil(JSON.stringify(json).length / 4);
}

/** A member whatever the case of its key, with the key as written; what is empty is as if it were absent. */
export function memberOf(document: unknown, name: string): readonly [key: string, value: unknown] {
  const object = asObject(document);
  const key = Object.hasOwn(object, name)
    ? name
    : (Object.keys(object).find((each) => each.toLowerCase() === name.toLowerCase()) ?? name);
  return [key, object[key] ?? undefined];
}

/** Keys and list positions from a document's root to a place inside it. */
export type KeyPath = readonly (string | number)[];

/** Writes a path as `workflows[0].steps[1].user`; keys that are not plain words are quoted: `agents["my agent"]`. */
export function formatKeyPath(path: KeyPath): string {
  return path.reduce<string>((text, key) => text + segment(key, text === ""), "");
}

/** The value at a path, or undefined where the path leads nowhere. */
export function valueAt(root: unknown, path: KeyPath): unknown {
  let value: unknown = root;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string | number, unknown>)[key];
  }
  return value;
}

function segment(key: string | number, first: boolean): string {
  if (typeof key === "number") return `[${key}]`;
  if (!/^[A-Za-z_$][\w$-]*$/.test(key)) return `[${JSON.stringify(key)}]`;
  return first ? key : `.${key}`;
}

/** The value as an object; an empty one when it is something else. */
export function asObject(value: unknown): Readonly<Record<string, unknown>> {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? (value as Readonly<Record<string, unknown>>) : {};
}

/** The value as a list; an empty one when it is something else. */
export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The value as a text that is not blank. */
export function asText(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() !== "" ? value : undefined;
}

/** Whether a value has more levels of arrays and objects; costs no more than these levels. */
export function hasMoreLevels(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  // Lists of members take three times as long, and there may be a million.
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1)
      if (hasMoreLevels(value[index], levels - 1)) return true;
    return false;
  }
  for (const key in value)
    if (hasMoreLevels((value as Readonly<Record<string, unknown>>)[key], levels - 1)) return true;
  return false;
}

/** A type with all properties read-only, at any depth. */
export type ReadonlyDeep<T> = [Json] extends [T]
  ? T
  : T extends readonly (infer U)[]
    ? readonly ReadonlyDeep<U>[]
    : T extends object
      ? { readonly [K in keyof T]: ReadonlyDeep<T[K]> }
      : T;
