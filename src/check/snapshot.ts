import { maxPartBytes } from "../base/limits.ts";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { McpvalsError, messageOf } from "../base/error.ts";
import { readRegularFile } from "../base/files.ts";
import { isJsonObject, type Json, type JsonObject, mapValues } from "../base/json.ts";
import { type CapabilityProfile, profileSchema } from "../model/check.ts";
import { readJsonText } from "../base/read-json.ts";

/**
 * What servers list: tools, resources, resource templates, prompts; by the name of the server in its file. `server` is the name that it
 * gives itself.
 */
export type Snapshot = Readonly<Record<string, JsonObject>>;

/** Reads a committed snapshot. Throws McpvalsError of kind `usage`. */
export async function readSnapshot(
  file: string,
  { mayBeAbsent }: { readonly mayBeAbsent: boolean },
): Promise<Snapshot> {
  const exists = existsSync(file);
  if (!exists && mayBeAbsent) return {};
  if (!exists)
    throw new McpvalsError("config/not-found", `there is no snapshot ${file}`, {
      hint: "Check once with --update, which writes it, and commit it.",
    });
  const { value: snapshot, reason = "it is not an object of listings" } = readJsonText(textOf(file));
  if (isJsonObject(snapshot) && Object.values(snapshot).every(isJsonObject)) return snapshot as Snapshot;
  throw new McpvalsError("config/invalid-value", `${file} is not a snapshot: ${reason}`, {
    location: { file },
    hint: "Name another file, or remove it and check once with --update, which writes it again.",
  });
}

/** The profile in a snapshot. Throws McpvalsError `config/invalid-value`. */
export function readProfile(file: string, profile: Json): CapabilityProfile {
  const { success, data, error } = profileSchema.safeParse(profile);
  if (success) return data;
  const [{ path, message } = { path: [], message: "" }] = error.issues;
  const at = path.length === 0 ? "" : `${path.join(".")}: `;
  throw new McpvalsError(
    "config/invalid-value",
    `${file} has a profile that cannot be read: ${at}${message}`,
    {
      location: { file },
      hint: "Check once with --security --update, which writes it again.",
    },
  );
}

function textOf(file: string): string {
  try {
    return readRegularFile(file, maxPartBytes).toString("utf8");
  } catch (cause) {
    throw new McpvalsError("config/unreadable", `${file} cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/**
 * The name under which a snapshot has a server: its own. The name of a command is often that of its folder, so that the only server of a
 * check is also found by the name that it gives itself, where one entry has that.
 */
export function nameInSnapshot(
  snapshot: Snapshot,
  { name, reported, isOnly }: { readonly name: string; readonly reported: string; readonly isOnly: boolean },
): string {
  if (Object.hasOwn(snapshot, name) || !isOnly) return name;
  const [same, ...others] = Object.keys(snapshot).filter((key) => snapshot[key]?.["server"] === reported);
  return same === undefined || others.length > 0 ? name : same;
}

/** Throws `usage/invalid-option` when a snapshot has another server under the name of one of these. */
export function refuseOtherServers(file: string, snapshot: Snapshot, current: Snapshot): void {
  for (const [name, { server: own }] of Object.entries(current)) {
    const known = Object.hasOwn(snapshot, name) ? snapshot[name]?.["server"] : undefined;
    if (known === undefined || known === own) continue;
    const [is, was] = [own, known].map((each) => JSON.stringify(each));
    const message = `${file} has another server "${name}": it calls itself ${was}, and this one ${is}`;
    throw new McpvalsError("usage/invalid-option", message, {
      hint: "Use one file for each, or give them different names in a file with servers. If this one was renamed, remove its entry, and write it again.",
    });
  }
}

/** Writes a snapshot, in an order that does not depend on the servers'. Throws McpvalsError `store/unwritable`. */
export function writeSnapshot(file: string, snapshot: Snapshot): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${JSON.stringify(inOrder(snapshot), undefined, 2)}\n`);
  } catch (error) {
    throw new McpvalsError("store/unwritable", `${file} could not be written: ${messageOf(error)}`, {
      hint: "Name a file in a folder that you may write to.",
    });
  }
}

function inOrder(snapshot: Snapshot): Snapshot {
  const ordered = mapValues(snapshot, (listing) => mapValues(listing, itemsInOrder));
  return Object.fromEntries(Object.entries(ordered).toSorted(byKey));
}

function itemsInOrder(items: Json): Json {
  if (!Array.isArray(items)) return items;
  return (items as readonly Json[])
    .map((item): [string, Json] => [keyOf(item), item])
    .toSorted(byKey)
    .map(([, item]) => item);
}

/** What identifies a tool, resource, template or prompt. */
function keyOf(item: Json): string {
  const { name, uri, uriTemplate } = isJsonObject(item) ? item : {};
  return JSON.stringify(uri ?? uriTemplate ?? name ?? null);
}

function byKey([a]: readonly [string, Json], [b]: readonly [string, Json]): number {
  return a < b ? -1 : 1;
}
