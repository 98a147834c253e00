import { Scalar } from "yaml";
import { taskApiVersion } from "../../core/formats/task/task-schema.ts";
import type { Migration } from "./migration.ts";
import {
  type AnyMap,
  commentOn,
  insert,
  mapIn,
  mapOf,
  pair,
  pairOf,
  remove,
  rename,
  setText,
  textIn,
  valueIn,
} from "./yaml-edit.ts";

const difficulties = ["easy", "medium", "hard"];

/** Rewrites everything but the spec: version and metadata. */
export function migrateHead(root: AnyMap, name: string, migration: Migration): void {
  const { document } = migration;
  const kind = pairOf(root, "kind");
  if (kind !== undefined) rename(kind, "kind");
  const version = pairOf(root, "apiVersion");
  if (version === undefined)
    insert(
      root,
      pair(document, "apiVersion", taskApiVersion),
      kind === undefined ? 0 : root.items.indexOf(kind) + 1,
    );
  else {
    rename(version, "apiVersion");
    setText(version, taskApiVersion);
  }
  const place = pairOf(root, "metadata");
  const metadata = mapIn(root, "metadata") ?? mapOf([]);
  if (place === undefined) insert(root, pair(document, "metadata", metadata), 2);
  else {
    rename(place, "metadata");
    place.value = metadata;
  }
  migrateMetadata(metadata, name, migration);
}

function migrateMetadata(metadata: AnyMap, name: string, migration: Migration): void {
  const { document } = migration;
  dropUnread(metadata, migration);
  const named = pairOf(metadata, "name");
  const text = textIn(metadata, "name")?.trim() ?? "";
  if (named === undefined) insert(metadata, pair(document, "name", name), 0);
  else setText(named, text === "" ? name : text);
  const description = pairOf(metadata, "description");
  if (description !== undefined) setOrRemove(metadata, "description");
  migrateLabels(metadata);
  migrateDifficulty(metadata, migration);
  loseParallel(metadata, migration);
}

const read = ["name", "description", "difficulty", "labels", "parallel", "runs"];

function dropUnread(metadata: AnyMap, migration: Migration): void {
  for (const each of metadata.items) {
    const key = read.find((known) => known.toLowerCase() === String(each.key).toLowerCase());
    if (key !== undefined) rename(each, key);
    else lose(metadata, String(each.key), { migration, why: "nothing reads it" });
  }
}

function setOrRemove(metadata: AnyMap, key: string): void {
  const place = pairOf(metadata, key);
  const text = textIn(metadata, key);
  if (place !== undefined && text !== undefined) setText(place, text);
  else remove(metadata, place);
}

function migrateLabels(metadata: AnyMap): void {
  const labels = mapIn(metadata, "labels");
  if (labels === undefined) remove(metadata, pairOf(metadata, "labels"));
  for (const each of labels?.items ?? []) setText(each, textIn(labels ?? mapOf([]), String(each.key)) ?? "");
}

/** Other words than the three of the new form become a label. */
function migrateDifficulty(metadata: AnyMap, migration: Migration): void {
  const place = pairOf(metadata, "difficulty");
  const difficulty = textIn(metadata, "difficulty") ?? "";
  if (place === undefined || difficulties.includes(difficulty)) return;
  remove(metadata, place);
  if (difficulty === "") return;
  const { document } = migration;
  const labels = mapIn(metadata, "labels") ?? mapOf([]);
  if (pairOf(metadata, "labels") === undefined) insert(metadata, pair(document, "labels", labels));
  const label = pair(document, "difficulty", new Scalar(difficulty));
  const text = `the difficulty is a label, as it is none of ${difficulties.join(", ")}`;
  commentOn(label, `migrated: ${text}`);
  insert(labels, label);
  migration.notes.push(`metadata.difficulty: ${text}`);
}

function loseParallel(metadata: AnyMap, migration: Migration): void {
  const isParallel = valueIn(metadata, "parallel") === true;
  if (isParallel) lose(metadata, "parallel", { migration, why: "see --concurrency" });
  else remove(metadata, pairOf(metadata, "parallel"));
  const runs = valueIn(metadata, "runs");
  if (typeof runs === "number" && runs > 1) lose(metadata, "runs", { migration, why: "see --trials" });
  else remove(metadata, pairOf(metadata, "runs"));
}

/** Takes a key of the metadata out and says so where it stood. */
function lose(
  metadata: AnyMap,
  key: string,
  { migration, why }: { readonly migration: Migration; readonly why: string },
): void {
  const place = pairOf(metadata, key);
  const value = JSON.stringify(valueIn(metadata, key)) ?? "null";
  remove(metadata, place);
  const text = `${key}: ${value.slice(0, 200)} is left out; ${why}`;
  const [first] = metadata.items;
  if (first !== undefined) commentOn(first, `migrated: ${text}`);
  migration.notes.push(`metadata.${text}`);
}
