import { parseDuration } from "../../core/formats/duration.ts";
import { parseGoDuration } from "../../core/formats/go-duration.ts";
import type { RawStep } from "../../core/formats/legacy-task/raw-step.ts";
import type { Migration, StepSite } from "./migration.ts";
import { type AnyMap, insert, mapIn, pair, pairOf, remove, rename, setText, textIn } from "./yaml-edit.ts";

/** Takes out the keys that nothing reads, and writes the others in their own case. */
export function keepOnly(
  map: AnyMap,
  keys: readonly string[],
  site: Pick<StepSite, "raw">,
  migration: Migration,
): void {
  for (const each of map.items) {
    const known = keys.find((key) => key.toLowerCase() === String(each.key).toLowerCase());
    if (known !== undefined) rename(each, known);
  }
  for (const odd of map.items.filter((each) => !keys.includes(String(each.key)))) {
    remove(map, odd);
    migration.note(site, `the key ${String(odd.key)}, which nothing reads, is left out`);
  }
}

interface Members extends StepSite {
  /** Whether the templates may use outputs of steps. */
  readonly steps: boolean;
}

/** Rewrites the templates in the members of a mapping. */
export function translateMembers(key: string, { raw, body, steps }: Members, migration: Migration): void {
  const members = mapIn(body, key);
  for (const each of members?.items ?? []) {
    const name = String(each.key);
    const text = members === undefined ? undefined : textIn(members, name);
    if (text === undefined) continue;
    const place = { step: raw, path: [...raw.path, key, name], steps };
    setText(each, migration.translate(text, place));
  }
}

/** Rewrites a duration where only Go would read it. */
export function moveDuration(map: AnyMap, key: string): void {
  const place = pairOf(map, key);
  const text = textIn(map, key);
  if (place === undefined || text === undefined) return;
  const ms = parseGoDuration(text);
  if (ms !== undefined && parseDuration(text) !== ms) setText(place, writtenDuration(ms));
}

const units = [
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const;

function writtenDuration(ms: number): string {
  const [unit, size] = units.find(([, each]) => ms % each === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

/** Gives a step the limit that it had: 5 minutes, where it says nothing. */
export function addTimeout(body: AnyMap, { document }: Migration): void {
  if (pairOf(body, "timeout") === undefined) insert(body, pair(document, "timeout", "5m"));
}

/**
 * Lets the failure of a step change nothing, as it did in the older form. An error then changes nothing either, which it
 * did there, so that this is told.
 */
export function tolerate(site: StepSite, migration: Migration): void {
  const { body } = site;
  if (pairOf(body, "continueOnError") === undefined)
    insert(body, pair(migration.document, "continueOnError", true));
  migration.lose(
    site,
    "continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run",
  );
}

/** Whether a failure of a step that is no script does not end its phase: in setup of the older form it never does. */
export function isTolerated({ phase }: RawStep): boolean {
  return phase === "setup";
}
