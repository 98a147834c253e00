import { isMap, type Pair } from "yaml";
import { translateFieldPath } from "../../core/formats/legacy-task/field-path.ts";
import { literalText, literalValues } from "./migrate-text.ts";
import type { Migration, StepSite } from "./migration.ts";
import { keepOnly } from "./step-parts.ts";
import {
  type AnyMap,
  insert,
  listIn,
  pair,
  pairOf,
  remove,
  rename,
  setText,
  textIn,
  valueIn,
} from "./yaml-edit.ts";

/** Rewrites `{match, fields}` as `{matches, json}`, in its place. False when nothing is expected. */
export function migrateContent(place: Pair, site: StepSite, migration: Migration): boolean {
  const content = place.value;
  if (!isMap(content)) return false;
  keepOnly(content, ["match", "fields"], site, migration);
  movePattern(content);
  const fields = pairOf(content, "fields");
  if (fields === undefined) return content.items.length > 0;
  const items = (listIn(content, "fields")?.items ?? []).filter((item) => isMap(item));
  for (const item of items) migrateField(item, site, migration);
  rename(fields, "json");
  if (items.length === 0) remove(content, fields);
  if (items.some(isLoose))
    migration.lose(
      site,
      'equals compares JSON values, so that 5 and "5" differ; the older form took them as equal',
    );
  return content.items.length > 0;
}

/** `match` becomes `matches`; it was no template. */
function movePattern(map: AnyMap): void {
  const match = pairOf(map, "match");
  const pattern = textIn(map, "match");
  if (match === undefined) return;
  rename(match, "matches");
  if (pattern === undefined) remove(map, match);
  else setText(match, literalText(pattern));
}

const types: Readonly<Record<string, string>> = { bool: "boolean" };

/** Rewrites one expectation of a place in a JSON text. */
function migrateField(field: AnyMap, site: StepSite, migration: Migration): void {
  keepOnly(field, ["path", "equals", "type", "match", "exists"], site, migration);
  movePath(field, migration);
  movePattern(field);
  const type = pairOf(field, "type");
  const kind = textIn(field, "type") ?? "";
  if (type !== undefined) setText(type, types[kind] ?? kind);
  const equals = pairOf(field, "equals");
  if (valueIn(field, "equals") === undefined) remove(field, equals);
  else literalValues(equals?.value);
  // Nothing else can be asked of a place that must not be.
  if (valueIn(field, "exists") === false)
    field.items = field.items.filter((each) => ["path", "exists"].includes(String(each.key)));
}

function movePath(field: AnyMap, { document }: Migration): void {
  const path = pairOf(field, "path");
  const written = textIn(field, "path") ?? "";
  const translated = translateFieldPath(written) ?? "$";
  if (path === undefined) insert(field, pair(document, "path", translated), 0);
  else if (translated !== `$.${written}`) setText(path, translated);
}

/** Whether an expectation may hold in the older form of a value that is only printed alike. */
function isLoose(field: unknown): boolean {
  const value = isMap(field) ? valueIn(field, "equals") : undefined;
  return ["string", "number", "boolean"].includes(typeof value);
}
