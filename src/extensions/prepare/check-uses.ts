import { pointerTo } from "../../core/checks/json-difference.ts";
import type { Diagnostic } from "../../core/errors/error.ts";
import { listNames, suggestion } from "../../core/formats/did-you-mean.ts";
import type { ExtensionManifest, OperationDeclaration } from "../../core/formats/extension/manifest.ts";
import { durationInWords, fillDefaults } from "../../core/formats/extension/typed-args.ts";
import { formatKeyPath, isJsonObject } from "../../core/formats/json.ts";
import type { ExtensionSpec, Json, JsonObject, Task } from "../../core/formats/model.ts";
import type { ExtensionUse } from "../../core/formats/task/task-options.ts";
import type { SchemaCheck } from "../../core/grade/grader.ts";
import { parseTemplate } from "../../core/templates/parse-template.ts";

export interface UsesToCheck {
  readonly tasks: readonly Task[];
  /** Steps that need extensions, by the names of their tasks. */
  readonly uses: ReadonlyMap<string, readonly ExtensionUse[]>;
  /** What an extension says of itself; undefined when that is not known yet. */
  readonly manifestOf: (spec: ExtensionSpec) => ExtensionManifest | undefined;
  readonly validateSchema: ValidateSchema;
}

/** Everything that is wrong with the steps of tasks, as far as the manifests of their extensions are known. */
export async function checkUses(work: UsesToCheck): Promise<readonly Diagnostic[]> {
  const checked = await Promise.all(
    work.tasks.flatMap((task) => (work.uses.get(task.name) ?? []).map((use) => checkUse(use, task, work))),
  );
  return checked.flat();
}

async function checkUse(
  use: ExtensionUse,
  task: Task,
  { manifestOf, validateSchema }: UsesToCheck,
): Promise<readonly Diagnostic[]> {
  const extensions = task.portable?.extensions ?? {};
  const spec = Object.hasOwn(extensions, use.extension) ? extensions[use.extension] : undefined;
  const manifest = spec === undefined ? undefined : manifestOf(spec);
  if (manifest === undefined) return [];
  const wrong = await problemsOf(use, { manifest, from: spec?.package ?? "" }, validateSchema);
  return wrong.map(({ message, hint }) => ({
    code: "task/extension",
    message: `step ${use.step} of the task ${JSON.stringify(task.name)}: ${message}`,
    hint,
    ...placeOf(use, task),
  }));
}

function placeOf({ location, frame }: ExtensionUse, task: Task): Pick<Diagnostic, "location" | "frame"> {
  if (location === undefined) return task.location === undefined ? {} : { location: task.location };
  return { location, ...(frame === undefined ? {} : { frame }) };
}

async function problemsOf(
  use: ExtensionUse,
  { manifest: { name, operations }, from }: { readonly manifest: ExtensionManifest; readonly from: string },
  validateSchema: ValidateSchema,
): Promise<readonly Wrong[]> {
  const { operation } = use;
  const called = `${use.extension}.${operation}`;
  const declared = Object.hasOwn(operations, operation) ? operations[operation] : undefined;
  if (declared === undefined) {
    // Under another name it may be another one than the reader believes.
    const which = name === use.extension ? "" : `, which is ${from},`;
    const message = `the extension ${use.extension}${which} has no operation ${JSON.stringify(operation)}`;
    return [{ message, hint: suggestion(operation, Object.keys(operations), "operations") }];
  }
  const wrong = await checkArguments(declared.params, use.args, validateSchema);
  return [
    ...phaseProblems(called, use, declared),
    ...tellArguments(wrong, { called, args: use.args, params: declared.params }),
  ];
}

function phaseProblems(called: string, { phase }: ExtensionUse, { phases }: OperationDeclaration): Wrong[] {
  if (phases.includes(phase)) return [];
  return [{ message: `${called} cannot be used in ${phase}`, hint: `It is for ${phases.join(" and ")}.` }];
}

/** Validates a value against a JSON Schema. Never rejects. */
export type ValidateSchema = (schema: Json, value: Json) => Promise<SchemaCheck>;

/**
 * What is wrong with the arguments of an operation, a sentence each, with their defaults filled in. Where they have
 * templates only that is checked which does not depend on them.
 */
export async function checkArguments(
  params: JsonObject,
  args: JsonObject,
  validate: ValidateSchema,
): Promise<readonly string[]> {
  const value = fillDefaults(params, knownArguments(args));
  if (!hasUnknown(value)) {
    const check = await validate(params, value);
    return check.status === "unusable"
      ? [`its JSON Schema cannot be used: ${check.reason}`]
      : schemaProblems(check, "");
  }
  return checkKnown(params, value, { root: params, validate, place: "" });
}

interface Place {
  /** The whole schema, which references start from. */
  readonly root: JsonObject;
  readonly validate: ValidateSchema;
  /** JSON pointer of the value. */
  readonly place: string;
}

/** Checks a part by itself; around what is not known, only keywords that need no more than the names of members. */
async function checkKnown(schema: Json | undefined, value: Json, place: Place): Promise<readonly string[]> {
  if (value === unknownValue || schema === undefined) return [];
  if (!hasUnknown(value)) {
    const check = await place.validate(withDefinitions(schema, place.root), value);
    return schemaProblems(check, place.place);
  }
  // Beside a reference some dialects heed nothing.
  if (!isJsonObject(schema) || schema["$ref"] !== undefined) return [];
  const expected = typeof schema["type"] === "string" ? schema["type"] : undefined;
  const type = Array.isArray(value) ? "array" : "object";
  if (expected !== undefined && expected !== type) return [`${named(place.place)} must be ${expected}`];
  return isJsonObject(value) ? checkMembers(schema, value, place) : checkItems(schema, value, place);
}

async function checkMembers(schema: JsonObject, value: JsonObject, place: Place): Promise<readonly string[]> {
  const properties = objectOf(schema["properties"]);
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const missing = required.filter((name) => typeof name === "string" && !Object.hasOwn(value, name));
  const own = Object.entries(value).filter(([name]) => Object.hasOwn(properties, name));
  const inner = await Promise.all(
    own.map(([name, member]) =>
      checkKnown(properties[name], member, { ...place, place: `${place.place}${pointerTo(name)}` }),
    ),
  );
  const rules = nameRules(schema);
  const told = rules === undefined ? [] : schemaProblems(await place.validate(rules, value), place.place);
  // Not what the members are, which is not known.
  const chosen = told.map((problem) => problem.replace(/, is \{.*$/s, ""));
  return [
    ...chosen,
    ...missing.map((name) => `${named(place.place)} must have required property '${String(name)}'`),
    ...unknownNames(schema, value).map(
      (name) => `${named(place.place)} must NOT have additional properties (${JSON.stringify(name)})`,
    ),
    ...inner.flat(),
  ];
}

/** Names that the schema rules out; none where patterns could allow them. */
function unknownNames(schema: JsonObject, value: JsonObject): string[] {
  if (schema["additionalProperties"] !== false || schema["patternProperties"] !== undefined) return [];
  const properties = objectOf(schema["properties"]);
  return Object.keys(value).filter((name) => !Object.hasOwn(properties, name));
}

async function checkItems(schema: JsonObject, value: Json, place: Place): Promise<readonly string[]> {
  const { items } = schema;
  const list: readonly Json[] = Array.isArray(value) ? value : [];
  if (!isJsonObject(items) || schema["prefixItems"] !== undefined) return [];
  const inner = await Promise.all(
    list.map((item, index) => checkKnown(items, item, { ...place, place: `${place.place}/${index}` })),
  );
  return inner.flat();
}

/** A part of a schema keeps what its references lead to, where that is in the usual place. */
function withDefinitions(schema: Json, root: JsonObject): Json {
  if (!isJsonObject(schema)) return schema;
  const shared = ["$schema", "$defs", "definitions"].flatMap((name) =>
    root[name] === undefined ? [] : [[name, root[name]] as const],
  );
  return { ...Object.fromEntries(shared), ...schema };
}

/** A part that cannot be used by itself is left to the trial, which has the whole. */
function schemaProblems(check: SchemaCheck, place: string): readonly string[] {
  if (check.status !== "invalid") return [];
  return check.errors
    .map(durationInWords)
    .map((error) =>
      error.startsWith("the value ")
        ? `${named(place)}${error.slice("the value".length)}`
        : `${place}${error}`,
    );
}

function named(place: string): string {
  return place === "" ? "the arguments" : place;
}

function objectOf(value: Json | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** Stands where a template stood: what it will be is not known yet. No file can have this text. */
export const unknownValue = "\u0000template\u0000";

/** Arguments as an operation will get them, as far as that is known before a trial: templates become `unknownValue`. */
export function knownArguments(args: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [name, knownValue(value)]));
}

/** Whether a value has a place in it that is not known yet. */
export function hasUnknown(value: Json | undefined): boolean {
  if (value === unknownValue) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknown);
}

function knownValue(value: Json): Json {
  if (typeof value === "string") return knownText(value);
  if (typeof value !== "object" || value === null) return value;
  return Array.isArray(value)
    ? value.map((item: Json) => knownValue(item))
    : knownArguments(value as JsonObject);
}

/** Which names in braces are roots depends on the `foreach` around the step; here each of them could be one. */
function knownText(text: string): string {
  const parts = parseTemplate(text, () => true);
  return parts.every((part) => typeof part === "string") ? parts.join("") : unknownValue;
}

/** Keywords that say which of several rules must hold. */
const joining = ["anyOf", "oneOf", "allOf"] as const;

/**
 * What a schema says, besides its own `required`, about nothing but the names of members, such as which of them is needed or
 * that only one may be given: whatever the members are, that can be checked. Undefined when it says nothing of the kind.
 */
function nameRules(schema: JsonObject): JsonObject | undefined {
  const { anyOf, oneOf, allOf, not } = schema;
  const all = listOf(allOf).flatMap((each) => {
    const rules = isAboutNames(each) ? each : isJsonObject(each) ? nameRules(each) : undefined;
    return rules === undefined ? [] : [rules];
  });
  const found: readonly (readonly [string, Json | undefined])[] = Object.entries({
    anyOf: isListAboutNames(anyOf) ? anyOf : undefined,
    oneOf: isListAboutNames(oneOf) ? oneOf : undefined,
    not: isAboutNames(not) ? not : undefined,
    allOf: all.length === 0 ? undefined : all,
  });
  const rules = found.flatMap(([name, rule]) => (rule === undefined ? [] : [[name, rule] as const]));
  return rules.length === 0 ? undefined : Object.fromEntries(rules);
}

function isAboutNames(schema: Json | undefined): boolean {
  if (!isJsonObject(schema)) return false;
  return Object.entries(schema).every(([keyword, rule]) => {
    if (keyword === "required") return true;
    if (keyword === "not") return isAboutNames(rule);
    return joining.some((each) => each === keyword) && isListAboutNames(rule);
  });
}

function isListAboutNames(list: Json | undefined): boolean {
  return Array.isArray(list) && list.length > 0 && list.every((each: Json) => isAboutNames(each));
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

/** What is wrong with a step, and what to do. */
export interface Wrong {
  readonly message: string;
  readonly hint: string;
}

/** A call of an operation. */
export interface ToldCall {
  /** `ALIAS.OPERATION`. */
  readonly called: string;
  readonly args: JsonObject;
  /** JSON Schema of the arguments. */
  readonly params: JsonObject;
}

/**
 * Puts what a validator says of arguments into the reader's words, as far as it is about names: what is missing, what there
 * is not, and arguments of which one is needed or only one may be given, each told once.
 */
export function tellArguments(problems: readonly string[], call: ToldCall): readonly Wrong[] {
  const { called, params } = call;
  const choices = choicesIn(params).flatMap((choice) => tellChoice(choice, problems, call));
  const names = new Set(choices.flatMap(({ choice }) => choice.names));
  const own = choices.map(({ message }) => ({ message: `${called} ${message}`, hint: hintOf(params) }));
  const others = problems.filter((problem) => {
    if (choices.length > 0 && /^the arguments must (?:match |NOT be valid)/.test(problem)) return false;
    const missing = missingName(problem);
    return missing === undefined || !names.has(missing) || requiredOf(params).includes(missing);
  });
  return [...others.map((problem) => tellOne(problem, call)), ...own];
}

function tellOne(problem: string, { called, params }: ToldCall): Wrong {
  const missing = missingName(problem);
  if (missing !== undefined) return { message: `${called} needs ${missing}`, hint: hintOf(params) };
  const unknown = unknownName(problem);
  if (unknown !== undefined) {
    const message = `${called} has no argument ${JSON.stringify(unknown)}`;
    return { message, hint: suggestion(unknown, namesOf(params), "arguments") };
  }
  return { message: `${called}: ${withPath(problem)}`, hint: hintOf(params) };
}

function missingName(problem: string): string | undefined {
  return /^the arguments must have required property '(.+)'$/.exec(problem)?.[1];
}

function unknownName(problem: string): string | undefined {
  const [, written] = /^the arguments must NOT have additional properties \((".*")\)$/.exec(problem) ?? [];
  if (written === undefined) return undefined;
  try {
    return String(JSON.parse(written));
  } catch {
    // It was shortened.
    return undefined;
  }
}

/** Begins with `cells[0].row` instead of `/cells/0/row`. */
function withPath(problem: string): string {
  const [pointer = ""] = /^(?:\/[^/\s]*)+/.exec(problem) ?? [];
  if (pointer === "") return problem;
  const keys = pointer
    .slice(1)
    .split("/")
    .map((key) => (/^\d+$/.test(key) ? Number(key) : key.replaceAll("~1", "/").replaceAll("~0", "~")));
  return formatKeyPath(keys) + problem.slice(pointer.length);
}

/** Arguments of which one is needed, only one may be given, or both. */
interface Choice {
  readonly kind: "anyOf" | "oneOf" | "not";
  readonly names: readonly string[];
}

function choicesIn(params: JsonObject): readonly Choice[] {
  const parts = [params, ...listOf(params["allOf"]).filter(isJsonObject)];
  return parts.flatMap((part): Choice[] => {
    const { not } = part;
    const excluded = isJsonObject(not) && isOnlyRequired(not) ? requiredOf(not) : [];
    return [
      ...alternatives("anyOf", part),
      ...alternatives("oneOf", part),
      ...(excluded.length > 1 ? [{ kind: "not", names: excluded } as const] : []),
    ];
  });
}

/** Alternatives that are told apart by the name of one argument each. */
function alternatives(kind: "anyOf" | "oneOf", part: JsonObject): Choice[] {
  const branches = listOf(part[kind]);
  const names = branches.flatMap((branch) =>
    isJsonObject(branch) && isOnlyRequired(branch) && requiredOf(branch).length === 1
      ? requiredOf(branch)
      : [],
  );
  return names.length > 0 && names.length === branches.length ? [{ kind, names }] : [];
}

function tellChoice(
  choice: Choice,
  problems: readonly string[],
  { args }: ToldCall,
): { readonly choice: Choice; readonly message: string }[] {
  const { kind, names } = choice;
  const said = kind === "not" ? "the arguments must NOT be valid" : `the arguments must match `;
  const given = names.filter((name) => Object.hasOwn(args, name));
  // Of many alternatives the validator does not come to the end.
  const isCut = kind !== "not" && given.length === 0 && problems.some((each) => missesOneOf(each, names));
  if (!isCut && !problems.some((problem) => problem.startsWith(said))) return [];
  if (kind !== "not" && given.length === 0) return [{ choice, message: `needs ${eitherOf(names)}` }];
  if (kind === "anyOf" || given.length < 2 || (kind === "not" && given.length < names.length)) return [];
  return [{ choice, message: `takes only one of ${given.join(", ")}` }];
}

function missesOneOf(problem: string, names: readonly string[]): boolean {
  const missing = missingName(problem);
  return missing !== undefined && names.includes(missing);
}

function eitherOf(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} or ${names.at(-1) ?? ""}`;
}

function hintOf(params: JsonObject): string {
  const names = namesOf(params);
  if (names.length === 0) return "Its manifest says which arguments it takes.";
  const needed = requiredOf(params);
  return `It takes ${listNames(names)}.${needed.length === 0 ? "" : ` It needs ${listNames(needed)}.`}`;
}

function namesOf({ properties }: JsonObject): readonly string[] {
  return isJsonObject(properties) ? Object.keys(properties) : [];
}

function requiredOf({ required }: JsonObject): readonly string[] {
  return listOf(required).map(String);
}

function isOnlyRequired(schema: JsonObject): boolean {
  return Object.keys(schema).every((key) => key === "required");
}
