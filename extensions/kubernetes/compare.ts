import { RE2JS } from "re2js";
import { EnvironmentError, type Json, type JsonObject } from "../../src/extensions/sdk/index.ts";
import { isObject, shown } from "./kube/state.ts";

/**
 * The first places where a live object is not what a partial manifest says, as sentences; none when it contains it.
 * Objects may have more keys. Entries of a list of objects that all have a `name` are found by that name, in any order and
 * among others; any other list has as many entries, in that order. `null` means that there is nothing.
 */
export function missingFrom(live: Json | undefined, partial: Json, path = ""): readonly string[] {
  if (partial === null) return live === undefined || live === null ? [] : [differs(path, live, partial)];
  if (live === undefined) return [`${path || "."} is missing, expected ${shown(partial)}`];
  if (isObject(partial))
    return isObject(live) ? inObject(live, partial, path) : [differs(path, live, partial)];
  if (Array.isArray(partial)) {
    return Array.isArray(live) ? inList(live, partial, path) : [differs(path, live, partial)];
  }
  return live === partial ? [] : [differs(path, live, partial)];
}

function inObject(live: JsonObject, partial: JsonObject, path: string): readonly string[] {
  return Object.entries(partial).flatMap(([key, wanted]) =>
    missingFrom(Object.hasOwn(live, key) ? live[key] : undefined, wanted, path + keyText(key)),
  );
}

function inList(live: readonly Json[], partial: readonly Json[], path: string): readonly string[] {
  if (partial.length > 0 && partial.every((item) => nameIn(item) !== undefined)) {
    return partial.flatMap((wanted) => inNamed(live, wanted, path));
  }
  if (live.length !== partial.length) {
    return [`${path} has ${live.length} entries, expected ${partial.length}: it is ${shown(live)}`];
  }
  return partial.flatMap((wanted, index) => missingFrom(live[index], wanted, `${path}[${index}]`));
}

function inNamed(live: readonly Json[], wanted: Json, path: string): readonly string[] {
  const name = nameIn(wanted);
  const found = live.find((item) => nameIn(item) === name);
  if (found !== undefined) return missingFrom(found, wanted, `${path}[name=${String(name)}]`);
  const names = live.map((item) => nameIn(item) ?? "?").join(", ");
  return [`${path} has no entry named ${String(name)}, it has ${names || "none"}`];
}

function nameIn(item: Json): string | undefined {
  return isObject(item) && typeof item["name"] === "string" ? item["name"] : undefined;
}

function keyText(key: string): string {
  return /^[\w-]+$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}

function differs(path: string, live: Json, wanted: Json): string {
  return `${path || "."} is ${shown(live)}, expected ${shown(wanted)}`;
}

/** Whether a pattern of RE2's syntax is found in a text. Throws EnvironmentError for what is not a pattern. */
export function isFound(pattern: string, text: string): boolean {
  try {
    return RE2JS.compile(pattern).matcher(text).find();
  } catch (cause) {
    throw new EnvironmentError(`${JSON.stringify(pattern)} is not a regular expression of RE2's syntax`, {
      cause,
    });
  }
}
