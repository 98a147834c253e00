import { isMap, isScalar, type Pair, type YAMLSeq } from "yaml";
import type { LegacyForm, LegacyPhase } from "../../core/formats/legacy-task/raw-step.ts";
import { migrateRequires } from "./migrate-requires.ts";
import { migrateStep } from "./migrate-step.ts";
import { literalText, withoutNeedlessEscapes } from "./migrate-text.ts";
import type { Migration } from "./migration.ts";
import { moveDuration } from "./step-parts.ts";
import {
  type AnyMap,
  commentOn,
  insert,
  keepComments,
  listIn,
  listOf,
  mapIn,
  mapOf,
  pair,
  pairOf,
  remove,
  rename,
  setText,
  textIn,
} from "./yaml-edit.ts";

const phases: readonly LegacyPhase[] = ["setup", "verify", "cleanup"];
const known = ["requires", "limits", "setup", "prompt", "verify", "cleanup"];

/** Rewrites `steps` of the script form, or `spec` of the step form. */
export function migrateSpec(root: AnyMap, form: LegacyForm, migration: Migration): void {
  const isScripts = form.format === "script-form";
  const [from, other] = isScripts ? ["steps", "spec"] : ["spec", "steps"];
  remove(root, pairOf(root, other));
  dropUnread(root, ["apiVersion", "kind", "metadata", from], migration);
  const place = pairOf(root, from);
  const spec = mapIn(root, from);
  if (place === undefined || spec === undefined) return;
  rename(place, "spec");
  dropUnread(spec, known, migration);
  migratePrompt(spec, form, migration);
  for (const phase of phases) migratePhase(spec, phase, { form, migration });
  migrateRequires(spec, migration);
  migrateLimits(spec, migration);
  addEnvironment(spec, place, migration);
}

function dropUnread(map: AnyMap, keys: readonly string[], migration: Migration): void {
  for (const each of map.items) {
    const key = keys.find((name) => name.toLowerCase() === String(each.key).toLowerCase());
    if (key !== undefined) rename(each, key);
    else {
      remove(map, each);
      migration.notes.push(`the key ${String(each.key)}, which nothing reads, is left out`);
    }
  }
}

interface Context {
  readonly form: LegacyForm;
  readonly migration: Migration;
}

function migratePhase(spec: AnyMap, phase: LegacyPhase, { form, migration }: Context): void {
  const place = pairOf(spec, phase);
  const steps = form.steps.filter((step) => step.phase === phase);
  if (place === undefined) return;
  if (steps.length === 0) return remove(spec, place);
  const list =
    form.format === "script-form" ? wrapped(place, steps[0]?.type ?? "", migration) : listIn(spec, phase);
  if (list === undefined) return remove(spec, place);
  place.value = list;
  const items = list.items.filter((item) => isMap(item));
  for (const [index, raw] of steps.entries()) {
    const item = items[index];
    if (item !== undefined) migrateStep(item, raw, migration);
  }
  for (const item of items) moveId(item);
  // The older forms clean up in the order of the file, the new one in the reverse order.
  if (phase === "cleanup" && items.length > 1) reverse(list, place);
}

/** A list whose only step has as its body what stands under the phase. */
function wrapped(place: Pair, type: string, migration: Migration): YAMLSeq | undefined {
  const body = place.value;
  if (!isMap(body)) return undefined;
  const unread = type === "script" ? ["contains", "exact"] : ["file", "inline"];
  const kept = body.items.filter((each) => !unread.includes(String(each.key).toLowerCase()));
  if (kept.length < body.items.length)
    migration.notes.push("steps.verify: the judge is left out; it was not asked, since there is a script");
  body.items = kept;
  const step = pair(migration.document, type, body);
  keepComments(body, step);
  return listOf([mapOf([step])]);
}

function reverse(list: YAMLSeq, place: Pair): void {
  list.items.reverse();
  commentOn(place, "migrated: the last step is run first");
}

/** `id` stood beside the type, and stands in the body now. */
function moveId(item: AnyMap): void {
  const id = pairOf(item, "id");
  if (id === undefined) return;
  remove(item, id);
  const body = item.items.map((each) => each.value).find((value) => isMap(value));
  const text = isScalar(id.value) ? String(id.value.value) : "";
  if (body !== undefined && /^[A-Za-z_][\w-]*$/.test(text)) insert(body, id, 0);
}

function migratePrompt(spec: AnyMap, { prompt }: LegacyForm, migration: Migration): void {
  const place = pairOf(spec, "prompt");
  const written = mapIn(spec, "prompt");
  if (place === undefined || written === undefined) return;
  const inline = pairOf(written, "inline");
  const text = textIn(written, "inline") ?? "";
  if (inline !== undefined && text !== "") {
    keepComments(written, place);
    place.value = inline.value;
    if (isScalar(inline.key)) keepComments(inline.key, place);
    migration.prompt = withoutNeedlessEscapes(migration.expressions.prompt(text, [...prompt.path, "inline"]));
    return setText(place, migration.prompt);
  }
  const file = pairOf(written, "file");
  if (file === undefined) return;
  rename(file, "file");
  written.items = [file];
  const content = migration.read(textIn(written, "file") ?? "") ?? "";
  migration.prompt = content.trimEnd();
  if (literalText(content) === content) return;
  const warning = "braces in the prompt's file are templates now; double those that are text";
  commentOn(place, `migrated: ${warning}`);
  migration.notes.push(`spec.prompt: ${warning}`);
}

function migrateLimits(spec: AnyMap, { document }: Migration): void {
  const limits = mapIn(spec, "limits") ?? mapOf([]);
  const keys = ["timeout", "cleanupTimeout"];
  for (const each of limits.items) {
    const key = keys.find((name) => name.toLowerCase() === String(each.key).toLowerCase());
    if (key !== undefined) rename(each, key);
  }
  limits.items = limits.items.filter((each) => keys.includes(String(each.key)));
  for (const key of keys) moveDuration(limits, key);
  const needsLimit = pairOf(spec, "cleanup") !== undefined && pairOf(limits, "cleanupTimeout") === undefined;
  if (needsLimit) insert(limits, pair(document, "cleanupTimeout", "5m"));
  const place = pairOf(spec, "limits");
  if (limits.items.length === 0) remove(spec, place);
  else if (place === undefined) insert(spec, pair(document, "limits", limits), headOf(spec));
  else place.value = limits;
}

/** The place behind what the task needs. */
function headOf(spec: AnyMap): number {
  return spec.items.findLastIndex((each) => ["imports", "requires", "env"].includes(String(each.key))) + 1;
}

/** Scripts had the whole shell; now they have what the task says. */
function addEnvironment(spec: AnyMap, place: Pair, migration: Migration): void {
  const { variables, optional, document, sites } = migration;
  if (variables.size > 0) {
    const env = Object.fromEntries([...variables].map((name) => [name, `{env.${name}}`]));
    const entry = pair(document, "env", document.createNode(env));
    commentOn(entry, "migrated: what the scripts use of your shell; take out what they set themselves");
    insert(spec, entry, headOf(spec));
    migration.notes.push(`spec.env: has what the scripts use of your shell: ${[...variables].join(", ")}`);
  }
  const isOutside = ({ raw }: { readonly raw: { readonly type: string } }): boolean =>
    raw.type === "script" ||
    (raw.type.includes(".") && migration.aliases.get(raw.type.split(".")[0] ?? "")?.kind === "extension");
  if (!sites.some(isOutside)) return;
  const also = [...optional].filter((name) => !variables.has(name));
  const more = also.length === 0 ? "" : `, such as ${also.join(", ")}`;
  const text = `processes get spec.env, PATH, HOME, LANG and TMPDIR, no more the whole shell; an Eval's inheritEnv passes more${more}`;
  commentOn(place, `migrated: ${text}`);
  migration.notes.push(`spec: ${text}`);
}
