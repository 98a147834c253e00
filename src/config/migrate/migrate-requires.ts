import { isMap } from "yaml";
import type { Migration } from "./migration.ts";
import {
  type AnyMap,
  commentOn,
  insert,
  keepComments,
  listIn,
  listOf,
  mapOf,
  pair,
  pairOf,
  remove,
  rename,
  setText,
  textIn,
} from "./yaml-edit.ts";

/** Rewrites `requires`: servers and commands stay requirements, extensions become imports. */
export function migrateRequires(spec: AnyMap, migration: Migration): void {
  const place = pairOf(spec, "requires");
  const list = listIn(spec, "requires");
  if (place === undefined) return;
  const at = spec.items.indexOf(place);
  const items = list?.items.filter((item) => isMap(item)) ?? [];
  const imports = items.flatMap((item) => importOf(item, migration));
  const requires = items.flatMap((item) => requirementOf(item, migration));
  if (requires.length === 0) remove(spec, place);
  else if (list !== undefined) list.items = requires;
  if (imports.length === 0) return;
  const entry = pair(migration.document, "imports", listOf(imports));
  if (requires.length === 0) keepComments(place.key, entry);
  insert(spec, entry, at);
}

function importOf(item: AnyMap, migration: Migration): AnyMap[] {
  const extension = textIn(item, "extension") ?? "";
  if (extension === "") return [];
  const { document, packages } = migration;
  const as = textIn(item, "as") ?? extension;
  const known = packages.get(extension);
  const entry = mapOf([pair(document, "package", known ?? extension), pair(document, "as", as)]);
  entry.commentBefore = item.commentBefore ?? null;
  if (known !== undefined) return [entry];
  const text = `say where ${extension} comes from: github.com/ORG/REPO@VERSION, as in the Eval's config.extensions`;
  commentOn(entry, `migrated: ${text}`);
  migration.notes.push(`spec.imports: ${text}`);
  return [entry];
}

function requirementOf(item: AnyMap, migration: Migration): AnyMap[] {
  const [server, command] = [textIn(item, "mcpServer") ?? "", textIn(item, "command") ?? ""];
  if ((textIn(item, "extension") ?? "") !== "") return [];
  const [from, to, name] = server === "" ? ["command", "command", command] : ["mcpServer", "server", server];
  const place = pairOf(item, from);
  if (place === undefined || name === "") {
    migration.notes.push("spec.requires: a requirement that nothing reads is left out");
    return [];
  }
  rename(place, to);
  setText(place, name);
  item.items = [place];
  return [item];
}
