import { type Interpolation, interpolate } from "../../core/formats/interpolate.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import { variableNamed } from "../environment.ts";
import type { Surroundings } from "../surroundings.ts";

/** Replaces `${VAR}` in some parts of a document, named by their paths; the others stay as they are. */
export function interpolateParts(
  document: Json,
  parts: readonly (readonly string[])[],
  { overrides, environment }: Pick<Surroundings, "overrides" | "environment">,
): Interpolation {
  const chosen = parts.reduce<Json>((value, path) => copyPart(document, value, path), {});
  const found = interpolate(
    chosen,
    (name) => variableNamed(name, overrides) ?? variableNamed(name, environment),
  );
  const value = parts.reduce<Json>((rest, path) => copyPart(found.value, rest, path), document);
  return { ...found, value };
}

/** The target with the part of the source at a path; without it where the source has none. */
function copyPart(source: Json, target: Json, [key, ...rest]: readonly string[]): Json {
  if (key === undefined) return source;
  const inner = isJsonObject(source) && Object.hasOwn(source, key) ? source[key] : undefined;
  if (inner === undefined) return target;
  const base = isJsonObject(target) ? target : {};
  return { ...base, [key]: copyPart(inner, base[key] ?? {}, rest) };
}
