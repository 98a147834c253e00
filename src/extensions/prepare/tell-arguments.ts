import { listNames, suggestion } from "../../core/formats/did-you-mean.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import { formatKeyPath } from "../../core/formats/key-path.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";

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

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}
