import { isMap, isScalar, type Pair, parseDocument, Scalar, type YAMLSeq } from "yaml";
import { McpvalsError } from "../../core/errors/error.ts";
import { Expressions } from "../../core/formats/legacy-task/expressions.ts";
import {
  type LegacyForm,
  type LegacyPhase,
  readScriptForm,
  readStepForm,
} from "../../core/formats/legacy-task/legacy-form.ts";
import { LenientReader } from "../../core/formats/lenient-reader.ts";
import { parseYaml } from "../../core/formats/parse-yaml.ts";
import { taskApiVersion } from "../../core/formats/task/task-schema.ts";
import { migrateStep, moveDuration } from "./migrate-step.ts";
import { literalText, Migration, type StepSite, withoutNeedlessEscapes } from "./migration.ts";
import {
  type AnyMap,
  bindComments,
  commentOn,
  dropTwins,
  insert,
  keepComments,
  listIn,
  listOf,
  mapIn,
  mapOf,
  pair,
  pairOf,
  plain,
  remove,
  rename,
  setText,
  textIn,
  unfold,
  valueIn,
} from "./yaml-edit.ts";

export interface TaskSource {
  readonly text: string;
  /** The file as messages name it. */
  readonly shown: string;
  /** What a task without a name goes by. */
  readonly name: string;
  /** Whether the text is JSON, and what comes of it is to be. */
  readonly json: boolean;
  /** The text of a file beside the task; undefined when there is none. */
  readonly read: (file: string) => string | undefined;
  /** Where extensions come from, by their names in an Eval. Default: that is not known. */
  readonly packages?: ReadonlyMap<string, string>;
}

export interface MigratedTask {
  readonly text: string;
  /** False for a task that has the new form already. */
  readonly changed: boolean;
  /** What could not be kept, or is to be looked at: one sentence each. */
  readonly notes: readonly string[];
}

/**
 * Writes a task of the older forms, one that loads, as `mcp-eval/v1`, with its comments and the order of its keys. Throws
 * McpvalsError: `config/syntax`, `config/invalid-value` for what is no task, `config/checks-nothing`.
 */
export function migrateTask(source: TaskSource): MigratedTask {
  const { text, shown } = source;
  const document = parseYaml(
    text,
    { parseDocument },
    {
      version: "1.1",
      stringKeys: true,
      customTags: (tags) => tags.filter((tag) => typeof tag === "string" || !isTime(tag)),
    },
  );
  const failure = document.errors.find((error) => error.code !== "MULTIPLE_DOCS");
  if (failure !== undefined) throw new McpvalsError("config/syntax", `${shown}: ${failure.message}`);
  const hasMore = document.errors.length > 0;
  // Of several documents the older forms read the first; with errors a document cannot be written.
  document.errors = [];
  if (textOfRoot(document.contents, "apiVersion") === taskApiVersion)
    return { text, changed: false, notes: [`${shown} has the form ${taskApiVersion} already`] };
  unfold(document);
  dropTwins(document);
  bindComments(document);
  const root: unknown = document.contents;
  if (!isMap(root) || textIn(root, "kind") !== "Task")
    throw new McpvalsError("config/invalid-value", `${shown} is no task: its kind is not Task`);
  const form = formOf(root, shown);
  const { read, packages = new Map() } = source;
  const migration = new Migration({ document, ...expressionsOf(form), read, packages });
  if (hasMore) migration.notes.push("only the first document of the file is a task; the others are left out");
  migrateHead(root, source.name, migration);
  migrateSpec(root, form, migration);
  addOutputs(migration);
  document.setSchema("1.2");
  return { text: written(document, source.json), changed: true, notes: migration.notes };
}

function isTime(tag: { readonly tag?: string | undefined; readonly format?: string | undefined }): boolean {
  return tag.format === "TIME" || tag.tag === "tag:yaml.org,2002:timestamp";
}

function textOfRoot(root: unknown, key: string): string | undefined {
  return isMap(root) ? textIn(root, key) : undefined;
}

function formOf(root: AnyMap, shown: string): LegacyForm {
  const reader = new LenientReader(() => undefined);
  const isStepForm = textIn(root, "apiVersion")?.endsWith("/v1alpha2") === true;
  const document = plain(root);
  const form = isStepForm ? readStepForm(document, reader) : readScriptForm(document, reader);
  if (form === undefined || reader.failed) {
    const [first] = reader.diagnostics();
    throw new McpvalsError("config/invalid-value", `${shown}: ${first?.message ?? "it is no task"}`);
  }
  if (form.steps.every((step) => step.phase !== "verify")) {
    throw new McpvalsError(
      "config/checks-nothing",
      `${shown} has no verify step, and ${taskApiVersion} wants one`,
      {
        hint: "Say in verify what must hold once the agent is done.",
      },
    );
  }
  return form;
}

function expressionsOf({ steps, aliases }: LegacyForm): Pick<Migration, "expressions" | "aliases"> {
  const reader = new LenientReader(() => undefined);
  return { expressions: new Expressions({ reader, steps, aliases }), aliases };
}

function written(document: ReturnType<typeof parseYaml>, json: boolean): string {
  return json ? `${JSON.stringify(document.toJS(), undefined, 2)}\n` : document.toString({ lineWidth: 0 });
}

const difficulties = ["easy", "medium", "hard"];

/** Rewrites everything but the spec: version and metadata. */
function migrateHead(root: AnyMap, name: string, migration: Migration): void {
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
  dropUnreadHead(metadata, migration);
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

function dropUnreadHead(metadata: AnyMap, migration: Migration): void {
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

/** Gives the steps whose outputs are used an id to be called by, and those of servers the output that they had. */
function addOutputs({ sites, expressions, document, aliases }: Migration): void {
  const isCall = ({ raw }: StepSite): boolean => aliases.get(raw.type.split(".")[0] ?? "")?.kind === "server";
  for (const site of sites) {
    const { raw, body } = site;
    if (!expressions.used.has(raw.id)) continue;
    if (pairOf(body, "id") === undefined) insert(body, pair(document, "id", raw.id), 0);
    if (!isCall(site)) continue;
    const outputs: AnyMap = mapOf([pair(document, "content", "{result | json $.content}")]);
    insert(body, pair(document, "outputs", outputs));
  }
}

const phases: readonly LegacyPhase[] = ["setup", "verify", "cleanup"];
const known = ["requires", "limits", "setup", "prompt", "verify", "cleanup"];

/** Rewrites `steps` of the script form, or `spec` of the step form. */
function migrateSpec(root: AnyMap, form: LegacyForm, migration: Migration): void {
  const isScripts = form.format === "script-form";
  const [from, other] = isScripts ? ["steps", "spec"] : ["spec", "steps"];
  remove(root, pairOf(root, other));
  dropUnreadSpec(root, ["apiVersion", "kind", "metadata", from], migration);
  const place = pairOf(root, from);
  const spec = mapIn(root, from);
  if (place === undefined || spec === undefined) return;
  rename(place, "spec");
  dropUnreadSpec(spec, known, migration);
  migratePrompt(spec, form, migration);
  for (const phase of phases) migratePhase(spec, phase, { form, migration });
  migrateRequires(spec, migration);
  migrateLimits(spec, migration);
  addEnvironment(spec, place, migration);
}

function dropUnreadSpec(map: AnyMap, keys: readonly string[], migration: Migration): void {
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

/** Rewrites `requires`: servers and commands stay requirements, extensions become imports. */
function migrateRequires(spec: AnyMap, migration: Migration): void {
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
