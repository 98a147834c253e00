import { formatSchemaError, type SchemaError, type ValidateSchema } from "../expect/tool-result.ts";
import type { Diagnostic } from "../base/error.ts";
import { listNames, suggestion } from "../base/did-you-mean.ts";
import { goDurationPattern } from "../base/duration.ts";
import type { ExtensionManifest } from "./manifest.ts";
import { fillDefaults } from "./protocol.ts";
import {
  formatKeyPath,
  isJsonObject,
  mapTexts,
  mapValues,
  withoutUndefined,
  type Json,
  type JsonObject,
} from "../base/json.ts";
import type { ExtensionSpec, Task } from "../model/task.ts";
import { parseTemplate } from "../templates/template.ts";
import type { ExtensionUse } from "../model/extension.ts";

/**
 * Checks the steps of a task that use extensions, as far as their manifests are known: operations, phases, arguments.
 * `manifestOf` gives undefined for an extension that cannot be asked before the trial.
 */
export async function checkUses(
  task: Task,
  uses: readonly ExtensionUse[],
  manifestOf: (spec: ExtensionSpec) => ExtensionManifest | undefined,
  validate: ValidateSchema,
): Promise<readonly Diagnostic[]> {
  const extensions = task.portable?.extensions ?? {};
  const checked = uses.map(async (use): Promise<readonly Diagnostic[]> => {
    const spec = Object.hasOwn(extensions, use.extension) ? extensions[use.extension] : undefined;
    const manifest = spec && manifestOf(spec);
    if (spec === undefined || manifest === undefined) return [];
    const place = use.location === undefined ? { location: task.location } : use;
    return (await problemsOf(use, manifest, spec.package, validate)).map(({ message, hint }) => ({
      code: "task/extension",
      message: `step ${use.step} of the task ${JSON.stringify(task.name)}: ${message}`,
      hint,
      ...withoutUndefined({ location: place.location, frame: use.frame }),
    }));
  });
  return (await Promise.all(checked)).flat();
}

async function problemsOf(
  { extension, operation, phase, args }: ExtensionUse,
  { name, operations }: ExtensionManifest,
  from: string,
  validate: ValidateSchema,
): Promise<readonly Problem[]> {
  const declared = Object.hasOwn(operations, operation) ? operations[operation] : undefined;
  if (declared === undefined) {
    // An alias can hide which extension it is.
    const which = name === extension ? "" : `, which is ${from},`;
    const message = `the extension ${extension}${which} has no operation ${JSON.stringify(operation)}`;
    return [{ message, hint: suggestion(operation, Object.keys(operations), "operations") }];
  }
  const { phases, params } = declared;
  const call = { name: `${extension}.${operation}`, args, params };
  const wrong = await checkArguments(call, validate);
  if (phases.includes(phase)) return wrong;
  const message = `${call.name} cannot be used in ${phase}`;
  return [{ message, hint: `It is for ${phases.join(" and ")}.` }, ...wrong];
}

/** What is wrong with a step, and what to do. */
export interface Problem {
  readonly message: string;
  readonly hint: string;
}

export interface WrittenCall {
  /** `ALIAS.OPERATION`. */
  readonly name: string;
  /** With their templates. */
  readonly args: JsonObject;
  /** JSON Schema of the arguments. */
  readonly params: JsonObject;
}

/**
 * Checks the arguments of an operation, with their defaults filled in, before there is a trial. Values with templates are
 * not known yet; of what contains them, only rules that do not depend on them are checked.
 */
export async function checkArguments(
  call: WrittenCall,
  validate: ValidateSchema,
): Promise<readonly Problem[]> {
  const { name, params } = call;
  const args = fillDefaults(params, mapTexts(call.args, knownText));
  const shared = ["$schema", "$defs", "definitions"].filter((key) => params[key] !== undefined);
  const definitions = Object.fromEntries(shared.map((key) => [key, params[key] ?? null]));
  const schema = hasUnknown(args) ? { ...definitions, ...relaxed(params, args, params) } : params;
  const check = await validate(schema, args);
  if (check.status === "valid") return [];
  if (check.status === "invalid")
    return argumentProblems(
      check.errors.map((error) => withoutUnknown(error, args)),
      call,
    );
  // A part of a schema that cannot be used by itself is left to the trial, which has the whole.
  if (schema !== params) return [];
  return [{ message: `${name}: its JSON Schema cannot be used: ${check.reason}`, hint: hintOf(params) }];
}

/** A violation as a sentence, for a reader who sees the arguments as YAML. */
export function formatArgumentError(error: SchemaError): string {
  const isDuration = error.keyword === "pattern" && error.params["pattern"] === goDurationPattern;
  const message = isDuration ? "must be a duration, such as 90s or 1m30s" : error.message;
  const keys = keysOf(error).map((key) => (/^\d+$/.test(key) ? Number(key) : key));
  return formatSchemaError({ ...error, message, instancePath: formatKeyPath(keys) }, "the arguments");
}

function keysOf({ instancePath }: SchemaError): readonly string[] {
  const parts = instancePath.split("/").slice(1);
  return parts.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Stands for a text with templates, whose value is not known yet. No file can contain this text. */
const unknownValue = "\u0000template\u0000";

/** A `foreach` around the step can add roots of templates, so each name in braces counts as one. */
function knownText(text: string): string {
  const parts = parseTemplate(text, () => true);
  return parts.every((part) => typeof part === "string") ? parts.join("") : unknownValue;
}

function hasUnknown(value: Json): boolean {
  if (value === unknownValue) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknown);
}

/** The preview of a value would show the unknown ones in it. */
function withoutUnknown({ actual, ...error }: SchemaError, args: JsonObject): SchemaError {
  let value: Json = args;
  for (const key of keysOf(error)) {
    if (typeof value === "object" && value !== null) value = (value as JsonObject)[key] ?? null;
  }
  return actual === undefined || hasUnknown(value) ? error : { ...error, actual };
}

/** The rules of a schema that can be checked whatever the unknown values in a value are. `root` names the dialect. */
function relaxed(schema: Json | undefined, value: Json, root: JsonObject): JsonObject {
  // Some dialects ignore keywords beside a reference.
  if (value === unknownValue || !isJsonObject(schema)) return {};
  if (!hasUnknown(value)) return schema;
  if (schema["$ref"] !== undefined) return {};
  const { type, required, allOf, properties, patternProperties, additionalProperties, items } = schema;
  const rules: Record<string, Json | undefined> = { type };
  if (isJsonObject(value)) {
    rules["required"] = required;
    if (patternProperties === undefined && additionalProperties === false)
      rules["additionalProperties"] = false;
    if (isJsonObject(properties)) {
      rules["properties"] = mapValues(properties, (part, name) =>
        Object.hasOwn(value, name) ? relaxed(part, value[name] ?? null, root) : part,
      );
    }
  } else if (Array.isArray(value) && isJsonObject(items) && schema["prefixItems"] === undefined) {
    const key = /2019-09|draft-0[4-7]/.test(JSON.stringify(root["$schema"] ?? "")) ? "items" : "prefixItems";
    rules[key] = value.map((item: Json) => relaxed(items, item, root));
  }
  for (const key of ["anyOf", "oneOf"]) if (isListAboutNames(schema[key])) rules[key] = schema[key];
  if (isAboutNames(schema["not"])) rules["not"] = schema["not"];
  const all = listOf(allOf).map((each) => (isAboutNames(each) ? each : relaxed(each, value, root)));
  if (all.length > 0) rules["allOf"] = all;
  return withoutUndefined(rules);
}

/** Whether a schema has only rules about which members an object has. */
function isAboutNames(schema: Json | undefined): boolean {
  if (!isJsonObject(schema)) return false;
  return Object.entries(schema).every(([keyword, rule]) => {
    if (keyword === "required") return true;
    if (keyword === "not") return isAboutNames(rule);
    return ["anyOf", "oneOf", "allOf"].includes(keyword) && isListAboutNames(rule);
  });
}

function isListAboutNames(list: Json | undefined): boolean {
  return listOf(list).length > 0 && listOf(list).every(isAboutNames);
}

/**
 * Rewords violations that are about names: a missing or an unknown argument, and arguments of which one is needed or only
 * one may be given. Of the latter a validator reports every alternative; the reader gets one sentence.
 */
function argumentProblems(errors: readonly SchemaError[], call: WrittenCall): readonly Problem[] {
  const { name, params } = call;
  const choices = choicesIn(params).flatMap((choice) => {
    const message = brokenChoice(choice, errors, call.args);
    return message === undefined ? [] : [{ names: choice.names, message: `${name} ${message}` }];
  });
  const chosen = new Set(choices.flatMap(({ names }) => names));
  const others = errors.filter((error) => {
    const missing = missingArgument(error);
    if (missing !== undefined) return !chosen.has(missing) || requiredOf(params).includes(missing);
    return !(choices.length > 0 && error.instancePath === "" && choiceKeywords.has(error.keyword));
  });
  const hint = hintOf(params);
  return [
    ...others.map((error) => argumentProblem(error, call)),
    ...choices.map(({ message }) => ({ message, hint })),
  ];
}

function argumentProblem(error: SchemaError, { name, params }: WrittenCall): Problem {
  const missing = missingArgument(error);
  if (missing !== undefined) return { message: `${name} needs ${missing}`, hint: hintOf(params) };
  const { additionalProperty: unknown } = error.params;
  if (error.instancePath !== "" || typeof unknown !== "string")
    return { message: `${name}: ${formatArgumentError(error)}`, hint: hintOf(params) };
  return {
    message: `${name} has no argument ${JSON.stringify(unknown.slice(0, 100))}`,
    hint: suggestion(unknown, namesOf(params), "arguments"),
  };
}

function missingArgument({ instancePath, keyword, params }: SchemaError): string | undefined {
  const { missingProperty: name } = params;
  return instancePath === "" && keyword === "required" && typeof name === "string" ? name : undefined;
}

/** Arguments of which one is needed (`anyOf`), exactly one (`oneOf`), or not all (`not`). */
interface Choice {
  readonly keyword: "anyOf" | "oneOf" | "not";
  readonly names: readonly string[];
}

const choiceKeywords: ReadonlySet<string> = new Set<Choice["keyword"]>(["anyOf", "oneOf", "not"]);

function choicesIn(params: JsonObject): readonly Choice[] {
  const parts = [params, ...listOf(params["allOf"]).filter(isJsonObject)];
  return parts.flatMap((part) => [
    ...alternatives("anyOf", part),
    ...alternatives("oneOf", part),
    ...requiredOnly(part["not"]).flatMap((names): Choice[] =>
      names.length > 1 ? [{ keyword: "not", names }] : [],
    ),
  ]);
}

/** Alternatives that each require one argument and nothing else. */
function alternatives(keyword: "anyOf" | "oneOf", part: JsonObject): readonly Choice[] {
  const branches = listOf(part[keyword]);
  const names = branches.flatMap(requiredOnly).flatMap((each) => (each.length === 1 ? each : []));
  return names.length > 0 && names.length === branches.length ? [{ keyword, names }] : [];
}

/** The names that a schema requires, as one list, when it says nothing else; else empty. */
function requiredOnly(schema: Json | undefined): readonly (readonly string[])[] {
  const isPlain = isJsonObject(schema) && Object.keys(schema).every((key) => key === "required");
  return isPlain ? [requiredOf(schema)] : [];
}

/** A predicate about a choice that was not kept. */
function brokenChoice(
  { keyword, names }: Choice,
  errors: readonly SchemaError[],
  args: JsonObject,
): string | undefined {
  const given = names.filter((name) => Object.hasOwn(args, name));
  const isReported = errors.some((error) => error.instancePath === "" && error.keyword === keyword);
  if (keyword === "not")
    return isReported && given.length === names.length ? `takes only one of ${given.join(", ")}` : undefined;
  if (given.length > 0)
    return isReported && keyword === "oneOf" && given.length > 1
      ? `takes only one of ${given.join(", ")}`
      : undefined;
  // A validator that reports only its first errors may stop before the one of the choice itself.
  const isCut = errors.some((error) => names.includes(missingArgument(error) ?? ""));
  return isReported || isCut ? `needs ${names.join(", ").replace(/, ([^,]*)$/, " or $1")}` : undefined;
}

function hintOf(params: JsonObject): string {
  const names = namesOf(params);
  if (names.length === 0) return "Its manifest lists its arguments.";
  const needed = requiredOf(params);
  return `It takes ${listNames(names)}.${needed.length === 0 ? "" : ` It needs ${listNames(needed)}.`}`;
}

function namesOf({ properties }: JsonObject): readonly string[] {
  return isJsonObject(properties) ? Object.keys(properties) : [];
}

function requiredOf({ required }: JsonObject): readonly string[] {
  return listOf(required).map(String);
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}
