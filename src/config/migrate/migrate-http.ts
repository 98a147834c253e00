import { isMap } from "yaml";
import { migrateContent } from "./migrate-content.ts";
import { literalText, literalValues } from "./migrate-text.ts";
import type { Migration, StepSite } from "./migration.ts";
import { addTimeout, isTolerated, keepOnly, moveDuration, translateMembers } from "./step-parts.ts";
import {
  type AnyMap,
  insert,
  mapIn,
  mapOf,
  pair,
  pairOf,
  plain,
  remove,
  setText,
  textIn,
  valueIn,
} from "./yaml-edit.ts";

/** Every status: the older form takes any where none is asked for. */
const anyStatus = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/** Rewrites the body of an `http` step. */
export function migrateHttp(site: StepSite, migration: Migration): void {
  const { raw, body } = site;
  keepOnly(body, ["url", "method", "headers", "body", "timeout", "expect"], site, migration);
  for (const key of ["url", "method"]) {
    const place = pairOf(body, key);
    const text = textIn(body, key);
    if (place === undefined || text === undefined) continue;
    const where = { step: raw, path: [...raw.path, key], steps: false };
    setText(place, migration.translate(text, where));
  }
  translateMembers("headers", { ...site, steps: false }, migration);
  migrateRequestBody(body);
  moveDuration(body, "timeout");
  if (isTolerated(raw)) dropExpect(site, migration);
  migrateExpect(site, migration);
  addTimeout(body, migration);
}

/**
 * What is expected in setup changed nothing in the older form, but a request that could not be sent was an error.
 * `continueOnError` would hide that too.
 */
function dropExpect(site: StepSite, migration: Migration): void {
  const expect = mapIn(site.body, "expect");
  if (expect === undefined || expect.items.length === 0) return;
  const written = JSON.stringify(plain(expect));
  migration.lose(site, `in setup nothing depended on what was expected, so it is left out: ${written}`);
  expect.items = [];
}

/** `{raw: TEXT}` becomes the text. */
function migrateRequestBody(body: AnyMap): void {
  const place = pairOf(body, "body");
  const written = mapIn(body, "body");
  if (place === undefined || written === undefined) return;
  const text = textIn(written, "raw");
  const json = pairOf(written, "json");
  if (json !== undefined && isMap(json.value)) {
    literalValues(json.value);
    written.items = [json];
  } else if (text === undefined) remove(body, place);
  else {
    place.value = pairOf(written, "raw")?.value;
    setText(place, literalText(text));
  }
}

function migrateExpect(site: StepSite, migration: Migration): void {
  const { body } = site;
  const { document } = migration;
  const expect = mapIn(body, "expect") ?? mapOf([]);
  const place = pairOf(body, "expect");
  if (place === undefined) insert(body, pair(document, "expect", expect));
  else place.value = expect;
  keepOnly(expect, ["status", "body"], site, migration);
  if (valueIn(expect, "status") === undefined) {
    remove(expect, pairOf(expect, "status"));
    insert(expect, pair(document, "status", document.createNode(anyStatus, { flow: true })), 0);
  }
  const content = pairOf(expect, "body");
  if (content !== undefined && !migrateContent(content, site, migration)) remove(expect, content);
}
