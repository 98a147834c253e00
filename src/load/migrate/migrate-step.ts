import { isMap, type Pair, YAMLMap } from "yaml";
import { parseDuration, parseGoDuration } from "../../core/formats/duration.ts";
import { translateFieldPath } from "../../core/formats/legacy-task/expressions.ts";
import type { RawStep } from "../../core/formats/legacy-task/legacy-form.ts";
import { literalText, literalValues, type Migration, type StepSite } from "./migration.ts";
import {
  type AnyMap,
  insert,
  listIn,
  mapIn,
  mapOf,
  pair,
  pairOf,
  plain,
  remove,
  rename,
  setText,
  textIn,
  valueIn,
} from "./yaml-edit.ts";

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

/** Rewrites `{match, fields}` as `{matches, json}`, in its place. False when nothing is expected. */
function migrateContent(place: Pair, site: StepSite, migration: Migration): boolean {
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

/** Every status: the older form takes any where none is asked for. */
const anyStatus = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/** Rewrites the body of an `http` step. */
function migrateHttp(site: StepSite, migration: Migration): void {
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
  migrateHttpExpect(site, migration);
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

function migrateHttpExpect(site: StepSite, migration: Migration): void {
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

/** Rewrites the body of a `script` step. */
function migrateScript(site: StepSite, migration: Migration): void {
  const { body } = site;
  keepOnly(body, ["file", "inline", "env", "timeout", "continueOnError"], site, migration);
  noteVariables(site, migration);
  for (const key of ["file", "inline"]) {
    const source = pairOf(body, key);
    const text = textIn(body, key) ?? "";
    if (source !== undefined && text === "") remove(body, source);
    else if (source !== undefined) setText(source, literalText(text));
  }
  translateMembers("env", { ...site, steps: true }, migration);
  moveDuration(body, "timeout");
  migrateTolerance(site, migration);
  noteFolder(site, migration);
}

function migrateTolerance(site: StepSite, migration: Migration): void {
  const { raw, body } = site;
  const isTrue = valueIn(body, "continueOnError") === true;
  if (isTrue && raw.phase === "setup") return tolerate(site, migration);
  remove(body, pairOf(body, "continueOnError"));
  // In cleanup a failure never counts.
  if (isTrue && raw.phase === "verify")
    migration.lose(
      site,
      "continueOnError: true is left out: a failure counted all the same, only the steps after it still ran, as they always do now",
    );
}

function noteFolder(site: StepSite, migration: Migration): void {
  const file = textIn(site.body, "file")?.replace(/^\.\//, "");
  if (file?.includes("/") !== true) return;
  migration.lose(site, "the script runs in the task's folder, no more in its own: mind relative paths in it");
}

function noteVariables({ body }: StepSite, migration: Migration): void {
  const file = textIn(body, "file");
  const script = textIn(body, "inline") ?? (file === undefined ? undefined : migration.read(file)) ?? "";
  const own = new Set(mapIn(body, "env")?.items.map((each) => String(each.key)));
  const { needed, optional } = shellVariables(script);
  for (const name of needed) if (!own.has(name)) migration.variables.add(name);
  for (const name of optional) if (!own.has(name)) migration.optional.add(name);
}

/** Rewrites the body of a `SERVER.TOOL` step. */
function migrateToolCall(site: StepSite, migration: Migration): void {
  const { raw, body } = site;
  keepOnly(body, ["args", "expect"], site, migration);
  literalValues(pairOf(body, "args")?.value);
  if (valueIn(body, "args") === undefined) remove(body, pairOf(body, "args"));
  const expect = mapIn(body, "expect");
  if (expect !== undefined) migrateCallExpect(expect, site, migration);
  if ((expect?.items.length ?? 0) === 0) remove(body, pairOf(body, "expect"));
  addTimeout(body, migration);
  if (isTolerated(raw)) tolerate(site, migration);
}

function migrateCallExpect(expect: AnyMap, site: StepSite, migration: Migration): void {
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

/** Variables that every process of a step has, and those that a shell makes itself. */
const usual = new Set(
  (
    "PATH HOME LANG LOGNAME TERM TMPDIR USER SHELL PWD OLDPWD RANDOM SECONDS LINENO UID EUID PPID HOSTNAME IFS REPLY SHLVL " +
    "OPTARG OPTIND OPTERR FUNCNAME PIPESTATUS DIRSTACK GROUPS HOSTTYPE MACHTYPE OSTYPE PS4 COLUMNS LINES EPOCHSECONDS"
  ).split(" "),
);

const name = "[A-Z][A-Z0-9_]*";
const assignments = [
  new RegExp(`(?:^|[\\s;&|({])(${name})\\+?=`, "gm"),
  new RegExp(`\\b(?:for|select)\\s+(${name})\\b`, "g"),
  new RegExp(`\\b(?:printf\\s+-v|getopts\\s+\\S+)\\s+(${name})\\b`, "g"),
];
const readers = /\b(?:read|mapfile|readarray|local|declare|typeset)\b([^\n;|&<]*)/g;

/**
 * The variables in capitals that a shell script uses and does not set itself, in order: those it cannot do without, and
 * those for which it has a default. A script for another interpreter has none.
 */
export function shellVariables(script: string): {
  readonly needed: readonly string[];
  readonly optional: readonly string[];
} {
  if (!isShell(script)) return { needed: [], optional: [] };
  const text = script.replaceAll(/(^|\s)#.*$/gm, "$1");
  const own = assigned(text);
  const needed = new Set<string>();
  const optional = new Set<string>();
  for (const [, bare, braced, operator] of text.matchAll(
    /(?<!\\)\$(?:([A-Z][A-Z0-9_]*)|\{#?([A-Z][A-Z0-9_]*)([^}]?[^}]?))/g,
  )) {
    const used = bare ?? braced ?? "";
    if (own.has(used) || usual.has(used) || used.startsWith("BASH_")) continue;
    (/^:?[-+=?]/.test(operator ?? "") ? optional : needed).add(used);
  }
  return { needed: [...needed], optional: [...optional].filter((each) => !needed.has(each)) };
}

function isShell(script: string): boolean {
  const first = /^\s*#!([^\n]*)/.exec(script)?.[1];
  return first === undefined || /\b(?:sh|bash|zsh|dash|ksh)\b/.test(first);
}

function assigned(text: string): ReadonlySet<string> {
  const own = new Set(
    assignments.flatMap((pattern) => [...text.matchAll(pattern)].map(([, found = ""]) => found)),
  );
  for (const [, words = ""] of text.matchAll(readers)) {
    for (const [word] of words.matchAll(/\b[A-Z][A-Z0-9_]*\b/g)) own.add(word);
  }
  return own;
}

/** Takes out the keys that nothing reads, and writes the others in their own case. */
function keepOnly(
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
function translateMembers(key: string, { raw, body, steps }: Members, migration: Migration): void {
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
function addTimeout(body: AnyMap, { document }: Migration): void {
  if (pairOf(body, "timeout") === undefined) insert(body, pair(document, "timeout", "5m"));
}

/**
 * Lets the failure of a step change nothing, as it did in the older form. An error then changes nothing either, which it
 * did there, so that this is told.
 */
function tolerate(site: StepSite, migration: Migration): void {
  const { body } = site;
  if (pairOf(body, "continueOnError") === undefined)
    insert(body, pair(migration.document, "continueOnError", true));
  migration.lose(
    site,
    "continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run",
  );
}

/** Whether a failure of a step that is no script does not end its phase: in setup of the older form it never does. */
function isTolerated({ phase }: RawStep): boolean {
  return phase === "setup";
}
