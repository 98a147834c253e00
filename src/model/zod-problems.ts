import type * as z from "zod";
import { didYouMean, suggestion } from "../base/did-you-mean.ts";
import { extensionSettings } from "./extension.ts";
import { parsePackageRef } from "./package-ref.ts";
import { asObject, formatKeyPath, type KeyPath, valueAt } from "../base/json.ts";
import { type Problem, problem, problemAt } from "../base/problem.ts";

type Issue = z.core.$ZodIssue;
type IssueOf<C extends Issue["code"]> = Extract<Issue, { readonly code: C }>;
/** The issues of one option of a union. */
type Branch = readonly Issue[];

interface Context {
  readonly document: unknown;
  /** The texts as written of strings that variables went into. */
  readonly templates: ReadonlyMap<string, string>;
  /** Where the issue's own path begins. */
  readonly base: KeyPath;
}

/** Maximum number of unknown keys of one object that are reported. */
const maxKeys = 100;

/**
 * Turns a zod error into problems in the reader's words: one for each unknown key; for a union, those of the option
 * that was meant. No message repeats a value.
 */
export function problemsOfIssues(
  issues: Branch,
  document: unknown,
  templates: ReadonlyMap<string, string> = new Map(),
): Problem[] {
  return describeAll(issues, { document, templates, base: [] });
}

function describeAll(issues: Branch, context: Context): Problem[] {
  return issues.flatMap((issue) => describe(issue, context));
}

function describe(issue: Issue, context: Context): Problem[] {
  const place = placeAt(pathOf(issue, context), context);
  const { path, value } = place;
  switch (issue.code) {
    case "unrecognized_keys":
      return unknownKeys(issue.keys, issue.message.split(", "), place);
    case "invalid_union":
      return describeUnion(issue, place, context);
    case "invalid_type":
      return [wrongType(issue, place, context)];
    case "invalid_value":
      return [wrongChoice(issue.values, place, context)];
    case "too_small":
    case "too_big":
      return [invalid(`must ${limitOf(issue)}`, path)];
    case "invalid_key":
      return [{ ...invalid(issue.issues[0]?.message ?? "is not a valid key", path), at: "key" }];
    case "invalid_element":
      return describeAll(issue.issues, { ...context, base: path });
    case "invalid_format":
    case "not_multiple_of":
    case "custom":
      // The message is a predicate of our own, such as "must not be blank".
      return [
        value === undefined
          ? missingKey(path, issue.message.replace(/^must be /, ""))
          : invalid(issue.message, path),
      ];
  }
}

/** A path, and the value that the document has there. */
interface Place {
  readonly path: KeyPath;
  readonly value: unknown;
}

function placeAt(path: KeyPath, { document }: Context): Place {
  return { path, value: valueAt(document, path) };
}

function pathOf(issue: Issue, { base }: Context): KeyPath {
  return [...base, ...issue.path.map((key) => (typeof key === "symbol" ? String(key) : key))];
}

function unknownKeys(
  keys: readonly string[],
  known: readonly string[],
  { path: parent, value }: Place,
): Problem[] {
  const unquoted = keys.length === 1 ? unquotedTemplate(value) : undefined;
  return keys.slice(0, maxKeys).map((key) =>
    problem([...parent, key], `unknown key ${JSON.stringify(key.slice(0, 80))}${inside(parent)}`, {
      code: "config/unknown-key",
      at: "key",
      hint: unquoted ?? [...keyHints(key, parent, known), suggestion(key, known, "keys")].join(" "),
    }),
  );
}

/** For what is not an object the hint says which keys one would have. */
function wrongType(issue: IssueOf<"invalid_type">, place: Place, context: Context): Problem {
  const wrong = wrongValue(typeName(issue.expected), place, context);
  const { path, value } = place;
  const lists = issue.expected === "object" && /^\$?\w+(?:, \$?\w+)*$/.test(issue.message);
  if (!lists || value === undefined || wrong.hint !== undefined) return wrong;
  return { ...wrong, hint: objectHint(path, value, issue.message) ?? `Its keys are ${issue.message}.` };
}

/** The hint for `{workspace}` without quotes, which YAML reads as an object with an empty member. */
function unquotedTemplate(value: unknown): string | undefined {
  const [[key, member] = ["", undefined], ...others] = Object.entries(asObject(value));
  if (member !== null || others.length > 0) return undefined;
  const isExpression = /^[A-Za-z_][\w-]*(?:\.[\w-]+)*(?::[\w-]+)?(?:\s*\|.*)?$/.test(key);
  return isExpression ? `Write it in quotes: "{${key}}"` : undefined;
}

function missingKey(path: KeyPath, wanted: string): Problem {
  const parent = path.slice(0, -1);
  const message = `missing key "${String(path.at(-1) ?? "")}"${inside(parent)}: ${wanted}`;
  return problem(parent, message, { code: "config/missing-key" });
}

function inside(parent: KeyPath): string {
  return parent.length === 0 ? "" : ` in ${formatKeyPath(parent)}`;
}

function invalid(predicate: string, path: KeyPath, hint?: string): Problem {
  return path.length === 0
    ? problem(path, `the config ${predicate}`, { hint })
    : problemAt(path, predicate, { hint });
}

function wrongValue(wanted: string, place: Place, context: Context): Problem {
  const { path, value } = place;
  if (value === undefined && path.length > 0) return missingKey(path, wanted);
  const received = wanted.includes('"') && typeof value === "string" ? "" : `, not ${kindOf(value)}`;
  return invalid(`must be ${wanted}${received}`, path, quotingHint(wanted, place, context));
}

/** For a value that is none of some fixed ones. */
function wrongChoice(values: readonly unknown[], place: Place, context: Context): Problem {
  const wrong = wrongValue(oneOf(values), place, context);
  const texts = values.filter((each) => typeof each === "string");
  const near = typeof place.value === "string" ? didYouMean(place.value, texts) : undefined;
  return near === undefined || wrong.hint !== undefined
    ? wrong
    : { ...wrong, hint: `Did you mean "${near}"?` };
}

function quotingHint(wanted: string, { path, value }: Place, { templates }: Context): string | undefined {
  const unquoted = unquotedTemplate(value);
  if (unquoted !== undefined && wanted.includes("a string")) return unquoted;
  if (wanted === "a string" && (typeof value === "number" || typeof value === "boolean"))
    return "Write it in quotes.";
  if (typeof value !== "string" || !/number|true or false/.test(wanted)) return undefined;
  if (templates.has(formatKeyPath(path))) return "A variable always gives a string.";
  return /^(\d+(\.\d+)?|true|false)$/.test(value) ? "Write it without quotes." : undefined;
}

function describeUnion(issue: IssueOf<"invalid_union">, place: Place, context: Context): Problem[] {
  const { path, value } = place;
  if (issue.discriminator !== undefined) {
    const options = "options" in issue && Array.isArray(issue.options) ? issue.options : [];
    const wrong = wrongChoice(options, place, context);
    // What other tools call the Streamable HTTP transport.
    const isHttp = typeof value === "string" && /^(?:https|streamable[-_\s]*http)$/i.test(value);
    return [
      issue.discriminator === "transport" && isHttp ? { ...wrong, hint: 'Did you mean "shttp"?' } : wrong,
    ];
  }
  const branches = issue.errors.filter((branch) => !branch.some(isRootMismatch));
  if (branches.length === 0) return [wrongValue(rootAlternatives(issue.errors), place, context)];
  const inner = { ...context, base: path };
  // Those of the right kind that fit best.
  const right = branches.filter((branch) => !branch.some((each) => isOtherKind(each, inner)));
  const fewest = Math.min(...right.map(weight));
  const meant = right.filter((branch) => weight(branch) === fewest);
  const [first] = meant;
  if (first === undefined) return [wrongKind(branches, inner)];
  const missing = meant.map((branch) => branch.filter((each) => isMissing(each, inner)));
  if (meant.length > 1 && missing.every((each) => each.length > 0)) return eitherKey(meant, missing, inner);
  return describeAll(first, inner);
}

function isRootMismatch(issue: Issue): boolean {
  return issue.path.length === 0 && (issue.code === "invalid_type" || issue.code === "invalid_value");
}

function isMissing(issue: Issue, context: Context): boolean {
  return issue.path.length > 0 && placeAt(pathOf(issue, context), context).value === undefined;
}

/** A key with one fixed value that was given another one: the option was not meant. */
function isOtherKind(issue: Issue, context: Context): issue is IssueOf<"invalid_value"> {
  const isFixed = issue.code === "invalid_value" && issue.values.length === 1 && issue.path.length === 1;
  return isFixed && !isMissing(issue, context);
}

function weight(branch: Branch): number {
  return branch.reduce((sum, issue) => sum + (issue.code === "unrecognized_keys" ? issue.keys.length : 1), 0);
}

/** For an object whose kind, such as `type`, is none of those that there are. */
function wrongKind(branches: readonly Branch[], context: Context): Problem {
  const kinds = branches.flat().filter((issue) => isOtherKind(issue, context));
  const [first] = kinds;
  const path = first === undefined ? context.base : pathOf(first, context);
  const values = kinds.flatMap((kind) => kind.values);
  return wrongChoice(values, placeAt(path, context), context);
}

/** For an object that could become one of several, each lacking its own key. */
function eitherKey(branches: readonly Branch[], missing: readonly Branch[], context: Context): Problem[] {
  const keys = new Set(missing.map((issues) => `"${String(issues[0]?.path[0] ?? "")}"`));
  const message = `missing key ${[...keys].join(" or ")}${inside(context.base)}`;
  const unknown = branches.flat().filter((issue) => issue.code === "unrecognized_keys");
  const known = new Set(unknown.flatMap((issue) => issue.message.split(", ")));
  const extra = new Set(unknown.flatMap((issue) => issue.keys));
  return [
    problem(context.base, message, { code: "config/missing-key" }),
    ...unknownKeys([...extra], [...known], placeAt(context.base, context)),
  ];
}

function rootAlternatives(branches: readonly Branch[]): string {
  const wanted = branches.flat().flatMap((issue) => {
    if (issue.path.length > 0) return [];
    if (issue.code === "invalid_type") return [typeName(issue.expected)];
    return issue.code === "invalid_value" ? [oneOf(issue.values)] : [];
  });
  return [...new Set(wanted)].join(" or ");
}

function oneOf(values: readonly unknown[]): string {
  const texts = values.map((value) => JSON.stringify(value));
  return texts.length <= 1 ? texts.join("") : `${texts.slice(0, -1).join(", ")} or ${texts.at(-1) ?? ""}`;
}

const typeNames: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

function typeName(expected: string): string {
  return typeNames[expected] ?? `of type ${expected}`;
}

function kindOf(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "empty (null)";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "number") {
    if (!Number.isFinite(value)) return String(value);
    return Number.isInteger(value) ? "a number" : "a number with a fraction";
  }
  if (typeof value === "boolean") return String(value);
  return `a${typeof value === "object" ? "n" : ""} ${typeof value}`;
}

function limitOf(issue: IssueOf<"too_small"> | IssueOf<"too_big">): string {
  const isSmall = issue.code === "too_small";
  const limit = isSmall ? issue.minimum : issue.maximum;
  const words = isSmall ? "at least" : "at most";
  if (issue.origin === "array") return `have ${words} ${limit} item${Number(limit) === 1 ? "" : "s"}`;
  if (issue.inclusive === false) return `be ${isSmall ? "more" : "less"} than ${limit}`;
  return `be ${words} ${limit}`;
}

/** Hints for a key that goes by another name here. */
function keyHints(key: string, parent: KeyPath, known: readonly string[]): string[] {
  const isOfText = known.includes("text") && ["equals", "contains", "matches"].includes(key);
  if (parent.at(-1) === "expect" && isOfText) return [`Write it as text: { ${key}: … }.`];
  const isToolTest = parent.length === 4 && parent[0] === "toolHealthSuites" && parent[2] === "tests";
  if (isToolTest && key === "tool") return ['The tool is named by "name".'];
  const isServer = parent.at(-2) === "servers" || parent.at(-1) === "server";
  return isServer && key === "sandbox"
    ? [
        "A sandbox confines a program that talks over stdin and stdout (transport: stdio); a server with an address could not be reached in it.",
      ]
    : [];
}

/** The hint for what should be an object with these keys; undefined where the keys themselves are the best hint. */
export function objectHint(path: KeyPath, value: unknown, keys: string): string | undefined {
  const [parent, key] = path.slice(-2);
  if (typeof key !== "string") return undefined;
  if (parent === "extensions") return extensionHint(key, value);
  // A step `ALIAS.OPERATION`, in a list of steps.
  return typeof parent === "number" && key.includes(".")
    ? `Its keys are the arguments of the operation, and ${keys}. Without any it is written {}.`
    : undefined;
}

/** For an entry that is a misspelt setting, or only the package of an extension. */
function extensionHint(name: string, value: unknown): string {
  if (typeof value === "string" && parsePackageRef(value).ok)
    return `Write it as { package: ${JSON.stringify(value)} }.`;
  const near = didYouMean(name, extensionSettings);
  const meant = near === undefined ? "" : `Did you mean "${near}"? `;
  return `${meant}Settings for all extensions are ${extensionSettings.join(", ")}; any other key is an extension, an object with its package.`;
}
