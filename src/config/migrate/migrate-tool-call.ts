import { isMap } from "yaml";
import { translateFieldPath } from "../../core/formats/legacy-task/field-path.ts";
import { literalText, literalValues } from "./migrate-text.ts";
import type { Migration, StepSite } from "./migration.ts";
import { addTimeout, isTolerated, keepOnly, tolerate } from "./step-parts.ts";
import {
  type AnyMap,
  listIn,
  mapIn,
  mapOf,
  pair,
  pairOf,
  remove,
  rename,
  textIn,
  valueIn,
} from "./yaml-edit.ts";

/** Rewrites the body of a `SERVER.TOOL` step. */
export function migrateToolCall(site: StepSite, migration: Migration): void {
  const { raw, body } = site;
  keepOnly(body, ["args", "expect"], site, migration);
  literalValues(pairOf(body, "args")?.value);
  if (valueIn(body, "args") === undefined) remove(body, pairOf(body, "args"));
  const expect = mapIn(body, "expect");
  if (expect !== undefined) migrateExpect(expect, site, migration);
  if ((expect?.items.length ?? 0) === 0) remove(body, pairOf(body, "expect"));
  addTimeout(body, migration);
  if (isTolerated(raw)) tolerate(site, migration);
}

function migrateExpect(expect: AnyMap, site: StepSite, migration: Migration): void {
  keepOnly(expect, ["isError", "content"], site, migration);
  // `false` is what is usual, and the older form has no way to demand it.
  if (valueIn(expect, "isError") !== true) remove(expect, pairOf(expect, "isError"));
  const content = pairOf(expect, "content");
  if (content === undefined) return;
  const text = isMap(content.value) ? textExpectation(content.value, site, migration) : mapOf([]);
  rename(content, "text");
  content.value = text;
  if (text.items.length === 0) remove(expect, content);
}

/** The path of the text of the first part, which is nearly always the only one. */
const firstText = "$[0].text";

/** What was asked of the list of content becomes what is asked of its text, as far as that is the same. */
function textExpectation(content: AnyMap, site: StepSite, migration: Migration): AnyMap {
  keepOnly(content, ["match", "fields"], site, migration);
  const fields = (listIn(content, "fields")?.items ?? []).filter((item) => isMap(item));
  const ofText = fields.filter((field) => pathOf(field) === firstText);
  const whole = textIn(content, "match");
  const patterns = [whole, ...ofText.map((field) => textIn(field, "match"))].flatMap(literal);
  const [equals] = ofText.map((field) => textIn(field, "equals")).flatMap(literal);
  tellLosses(
    { whole, lost: fields.filter((field) => pathOf(field) !== firstText).map(pathOf) },
    site,
    migration,
  );
  const { document } = migration;
  return mapOf([
    ...(equals === undefined ? [] : [pair(document, "equals", equals)]),
    ...(patterns.length === 0
      ? []
      : [pair(document, "matches", patterns.length === 1 ? patterns[0] : patterns)]),
  ]);
}

function tellLosses(
  { whole, lost }: { readonly whole: string | undefined; readonly lost: readonly string[] },
  site: StepSite,
  migration: Migration,
): void {
  if (whole !== undefined)
    migration.lose(site, "the pattern is looked for in the text, no more in the JSON of the list of content");
  if (lost.length > 0)
    migration.lose(site, `what was expected of ${lost.join(", ")} in the list of content is left out`);
}

function pathOf(field: AnyMap): string {
  return translateFieldPath(textIn(field, "path") ?? "") ?? "";
}

function literal(text: string | undefined): string[] {
  return text === undefined ? [] : [literalText(text)];
}
