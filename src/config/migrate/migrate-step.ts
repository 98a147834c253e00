import { isMap, YAMLMap } from "yaml";
import type { RawStep } from "../../core/formats/legacy-task/raw-step.ts";
import { migrateHttp } from "./migrate-http.ts";
import { migrateScript } from "./migrate-script.ts";
import { literalValues } from "./migrate-text.ts";
import { migrateToolCall } from "./migrate-tool-call.ts";
import type { Migration, StepSite } from "./migration.ts";
import { addTimeout, isTolerated, keepOnly, tolerate } from "./step-parts.ts";
import { type AnyMap, mapOf, pair, pairOf, remove, rename, setText, textIn } from "./yaml-edit.ts";

/** Rewrites a step, `TYPE: BODY`, in its place. */
export function migrateStep(item: AnyMap, raw: RawStep, migration: Migration): void {
  const step = pairOf(item, raw.type);
  if (step === undefined) return;
  const body: AnyMap = isMap(step.value) ? step.value : new YAMLMap();
  step.value = body;
  const site = { raw, item, body };
  migration.sites.push(site);
  switch (raw.type) {
    case "script":
      return migrateScript(site, migration);
    case "llmJudge":
      rename(step, "llm");
      return migrateJudge(site, migration);
    case "http":
      return migrateHttp(site, migration);
    default:
      return migrateNamed(site, migration);
  }
}

function migrateJudge(site: StepSite, migration: Migration): void {
  const { raw, body } = site;
  keepOnly(body, ["contains", "exact"], site, migration);
  for (const key of ["contains", "exact"]) {
    const asked = pairOf(body, key);
    const text = textIn(body, key) ?? "";
    if (asked === undefined) continue;
    const place = { step: raw, path: [...raw.path, key], steps: true };
    if (text === "") remove(body, asked);
    else setText(asked, migration.translate(text, place));
  }
  addTimeout(body, migration);
}

/** `SERVER.TOOL` or `EXTENSION.OPERATION`. */
function migrateNamed(site: StepSite, migration: Migration): void {
  const { raw, item, body } = site;
  const dot = raw.type.indexOf(".");
  const [first, operation] = [raw.type.slice(0, dot), raw.type.slice(dot + 1)];
  const alias = migration.aliases.get(first);
  const step = pairOf(item, raw.type);
  if (alias?.kind === "server") {
    if (step !== undefined) rename(step, `${alias.name}.${operation}`);
    return migrateToolCall(site, migration);
  }
  literalValues(body);
  if (body.items.some((each) => ownKeys.has(String(each.key)))) {
    const args = mapOf(body.items);
    const named = { package: first, action: operation, args };
    body.items = Object.entries(named).map(([key, value]) => pair(migration.document, key, value));
    if (step !== undefined) rename(step, "extension");
  }
  if (isTolerated(raw)) tolerate(site, migration);
}

/** Keys that an operation's short form has itself, so that no argument can go by them. */
const ownKeys = new Set(["id", "timeout", "if", "continueOnError", "outputs", "retry", "stableFor"]);
