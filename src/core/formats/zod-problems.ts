import type * as z from "zod";
import { didYouMean, suggestion } from "./did-you-mean.ts";
import { extensionSettings } from "./extension/extension-table-schema.ts";
import { parsePackageRef } from "./extension/package-ref.ts";
import { asObject, formatKeyPath, type KeyPath, valueAt } from "./json.ts";
import type { Problem } from "./problem.ts";

type Issue = z.core.$ZodIssue;
type IssueOf<C extends Issue["code"]> = Extract<Issue, { readonly code: C }>;

/** What is being described: the document, and the texts as written of strings that variables went into. */
interface Context {
  readonly document: unknown;
  readonly templates: ReadonlyMap<string, string>;
  /** Where the issue's own path begins. */
  readonly base: KeyPath;
}

/** Maximum number of unknown keys of one object that are reported. */
const mostKeys = 100;

/**
 * Turns a zod error into problems in the reader's words: one for each unknown key; for a union, those of the branch
 * that was meant. No message repeats a value.
 */
export function problemsOfIssues(
  issues: readonly Issue[],
  document: unknown,
  templates: ReadonlyMap<string, string> = new Map(),
): Problem[] {
  return describeAll(issues, { document, templates, base: [] });
}

function describeAll(issues: readonly Issue[], context: Context): Problem[] {
  return issues.flatMap((issue) => describe(issue, context));
}

function describe(issue: Issue, context: Context): Problem[] {
  const path = pathOf(issue, context);
  switch (issue.code) {
    case "unrecognized_keys":
      return unknownKeys(issue.keys, path, { known: issue.message.split(", "), context });
    case "invalid_union":
      return describeUnion(issue, path, context);
    case "invalid_type":
      return [wrongType(issue, path, context)];
    case "invalid_value":
      return [wrongValue(oneOf(issue.values), path, context)];
    case "too_small":
      return [invalid(`must ${tooSmall(issue)}`, path)];
    case "too_big":
      return [invalid(`must ${tooBig(issue)}`, path)];
    case "invalid_key":
      return [{ ...invalid(issue.issues[0]?.message ?? "is no valid key", path), at: "key" }];
    case "invalid_element":
      return describeAll(issue.issues, { ...context, base: path });
    case "invalid_format":
    case "not_multiple_of":
    case "custom":
      return [describeRefusal(issue.message, path, context)];
  }
}

function pathOf(issue: Issue, context: Context): KeyPath {
  const own = issue.path.map((key) => (typeof key === "symbol" ? String(key) : key));
  return [...context.base, ...own];
}

interface KeyContext {
  readonly known: readonly string[];
  readonly context: Context;
}

function unknownKeys(keys: readonly string[], parent: KeyPath, { known, context }: KeyContext): Problem[] {
  const unquoted = keys.length === 1 ? unquotedTemplate(valueAt(context.document, parent)) : undefined;
  return keys.slice(0, mostKeys).map((key) => {
    const problem = unknownKey(key, parent, known);
    return unquoted === undefined ? problem : { ...problem, hint: unquoted };
  });
}

function unknownKey(key: string, parent: KeyPath, known: readonly string[]): Problem {
  return {
    code: "config/unknown-key",
    message: `unknown key ${JSON.stringify(key.slice(0, 80))}${inside(parent)}`,
    path: [...parent, key],
    at: "key",
    hint: [keyHint(key, parent), suggestion(key, known, "keys")].filter(Boolean).join(" "),
  };
}

/** For what is no object the hint says which keys one would have. */
function wrongType(issue: IssueOf<"invalid_type">, path: KeyPath, context: Context): Problem {
  const problem = wrongValue(typeName(issue.expected), path, context);
  const value = valueAt(context.document, path);
  const lists = issue.expected === "object" && /^\$?\w+(?:, \$?\w+)*$/.test(issue.message);
  if (!lists || value === undefined || problem.hint !== undefined) return problem;
  return { ...problem, hint: objectHint(path, value, issue.message) ?? `Its keys are ${issue.message}.` };
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
  return {
    code: "config/missing-key",
    message: `missing key "${String(path.at(-1) ?? "")}"${inside(parent)}: ${wanted}`,
    path: parent,
    at: "value",
  };
}

function inside(parent: KeyPath): string {
  return parent.length === 0 ? "" : ` in ${formatKeyPath(parent)}`;
}

function invalid(predicate: string, path: KeyPath, hint?: string): Problem {
  const subject = path.length === 0 ? "the config" : formatKeyPath(path);
  const message = `${subject} ${predicate}`;
  return {
    code: "config/invalid-value",
    message,
    path,
    at: "value",
    ...(hint === undefined ? {} : { hint }),
  };
}

/** For a refusal whose message is a predicate of our own, such as "must not be blank". */
function describeRefusal(message: string, path: KeyPath, context: Context): Problem {
  const value = valueAt(context.document, path);
  if (value === undefined) return missingKey(path, message.replace(/^must be /, ""));
  return invalid(message, path);
}

function wrongValue(wanted: string, path: KeyPath, context: Context): Problem {
  const value = valueAt(context.document, path);
  if (value === undefined && path.length > 0) return missingKey(path, wanted);
  const listed = wanted.includes('"') && typeof value === "string";
  const received = listed ? "" : `, not ${kindOf(value)}`;
  return invalid(`must be ${wanted}${received}`, path, quotingHint(wanted, value, { path, context }));
}

function quotingHint(
  wanted: string,
  value: unknown,
  place: { readonly path: KeyPath; readonly context: Context },
): string | undefined {
  const unquoted = unquotedTemplate(value);
  if (unquoted !== undefined && wanted.includes("a string")) return unquoted;
  if (wanted === "a string" && (typeof value === "number" || typeof value === "boolean")) {
    return "Write it in quotes.";
  }
  if (typeof value !== "string" || !/number|true or false/.test(wanted)) return undefined;
  if (place.context.templates.has(formatKeyPath(place.path))) return "A variable always gives a string.";
  return /^(\d+(\.\d+)?|true|false)$/.test(value) ? "Write it without quotes." : undefined;
}

function describeUnion(issue: IssueOf<"invalid_union">, path: KeyPath, context: Context): Problem[] {
  if (issue.discriminator !== undefined) {
    const options = "options" in issue && Array.isArray(issue.options) ? issue.options : [];
    const wrong = wrongValue(oneOf(options), path, context);
    const hint =
      issue.discriminator === "transport" ? transportHint(valueAt(context.document, path)) : undefined;
    return [hint === undefined ? wrong : { ...wrong, hint }];
  }
  const branches = issue.errors.filter((branch) => !branch.some(isRootMismatch));
  if (branches.length === 0) return [wrongValue(rootAlternatives(issue.errors), path, context)];
  const inner = { ...context, base: path };
  const meant = branchesMeant(branches, inner);
  const first = meant[0];
  if (first === undefined) return [wrongKind(branches, inner)];
  const missing = meant.map((branch) => branch.filter((each) => isMissing(each, inner)));
  if (meant.length > 1 && missing.every((each) => each.length > 0)) return eitherKey(meant, missing, inner);
  return describeAll(first, inner);
}

function isRootMismatch(issue: Issue): boolean {
  return issue.path.length === 0 && (issue.code === "invalid_type" || issue.code === "invalid_value");
}

function isMissing(issue: Issue, context: Context): boolean {
  return issue.path.length > 0 && valueAt(context.document, pathOf(issue, context)) === undefined;
}

/** A key with one fixed value that was given another one: the branch was not meant. */
function isOtherKind(issue: Issue, context: Context): boolean {
  const isFixed = issue.code === "invalid_value" && issue.values.length === 1 && issue.path.length === 1;
  return isFixed && !isMissing(issue, context);
}

/** The branches that fit best: of the right kind and with the fewest issues. Empty when none is of the right kind. */
function branchesMeant(
  branches: readonly (readonly Issue[])[],
  context: Context,
): readonly (readonly Issue[])[] {
  const right = branches.filter((branch) => !branch.some((issue) => isOtherKind(issue, context)));
  const fewest = Math.min(...right.map(weight));
  return right.filter((branch) => weight(branch) === fewest);
}

function weight(branch: readonly Issue[]): number {
  return branch.reduce((sum, issue) => sum + (issue.code === "unrecognized_keys" ? issue.keys.length : 1), 0);
}

/** For an object whose kind, such as `type`, is none of those that there are. */
function wrongKind(branches: readonly (readonly Issue[])[], context: Context): Problem {
  const kinds = branches.flatMap((branch) => branch.filter((issue) => isOtherKind(issue, context)));
  const values = kinds.flatMap((issue) => (issue.code === "invalid_value" ? issue.values : []));
  const [first] = kinds;
  return wrongValue(oneOf(values), first === undefined ? context.base : pathOf(first, context), context);
}

/** For an object that could become one of several, each lacking its own key. */
function eitherKey(
  branches: readonly (readonly Issue[])[],
  missing: readonly (readonly Issue[])[],
  context: Context,
): Problem[] {
  const lacking = missing.map((issues) => `"${String(issues[0]?.path[0] ?? "")}"`);
  const keys = [...new Set(lacking)].join(" or ");
  const unknown = branches.flatMap((branch) => branch.filter((issue) => issue.code === "unrecognized_keys"));
  const known = [...new Set(unknown.flatMap((issue) => issue.message.split(", ")))];
  const extra = [...new Set(unknown.flatMap((issue) => issue.keys))];
  return [
    {
      code: "config/missing-key",
      message: `missing key ${keys}${inside(context.base)}`,
      path: context.base,
      at: "value",
    },
    ...unknownKeys(extra, context.base, { known, context }),
  ];
}

function rootAlternatives(branches: readonly (readonly Issue[])[]): string {
  const wanted = branches.flatMap((branch) =>
    branch.filter(isRootMismatch).map((issue) => {
      if (issue.code === "invalid_type") return typeName(issue.expected);
      return issue.code === "invalid_value" ? oneOf(issue.values) : "something else";
    }),
  );
  return [...new Set(wanted)].join(" or ");
}

function oneOf(values: readonly unknown[]): string {
  const texts = values.map((value) => JSON.stringify(value));
  return texts.length <= 1 ? texts.join("") : `${texts.slice(0, -1).join(", ")} or ${texts.at(-1) ?? ""}`;
}

function typeName(expected: string): string {
  const names: Readonly<Record<string, string>> = {
    string: "a string",
    number: "a number",
    int: "a whole number",
    boolean: "true or false",
    array: "a list",
    object: "an object",
    record: "an object",
  };
  return names[expected] ?? `of type ${expected}`;
}

function kindOf(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "empty (null)";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "number") return Number.isInteger(value) ? "a number" : "a number with a fraction";
  return value === true || value === false
    ? String(value)
    : `a${typeof value === "object" ? "n" : ""} ${typeof value}`;
}

function tooSmall(issue: IssueOf<"too_small">): string {
  if (issue.origin === "array") return `have at least ${countOf(issue.minimum)}`;
  return issue.inclusive === false ? `be more than ${issue.minimum}` : `be at least ${issue.minimum}`;
}

function tooBig(issue: IssueOf<"too_big">): string {
  if (issue.origin === "array") return `have at most ${countOf(issue.maximum)}`;
  return issue.inclusive === false ? `be less than ${issue.maximum}` : `be at most ${issue.maximum}`;
}

function countOf(count: number | bigint): string {
  return `${count} item${Number(count) === 1 ? "" : "s"}`;
}

/** What other tools call the Streamable HTTP transport, without case, `-` and `_`. */
const streamableHttp = ["https", "streamablehttp"];

/** The hint for a transport that goes by another name elsewhere; undefined for any other value. */
function transportHint(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const word = value.toLowerCase().replaceAll(/[-_\s]/g, "");
  return streamableHttp.includes(word) ? 'Did you mean "shttp"?' : undefined;
}

/** The hint for a key that goes by another name here; undefined for any other key. */
function keyHint(key: string, parent: KeyPath): string | undefined {
  const isToolTest = parent.length === 4 && parent[0] === "toolHealthSuites" && parent[2] === "tests";
  if (isToolTest && key === "tool") return 'The tool is named by "name".';
  const isServer =
    ["servers", "mcp_servers"].some((each) => each === parent.at(-2)) || parent.at(-1) === "server";
  return isServer && key === "sandbox"
    ? "A sandbox confines a program that talks over stdin and stdout (transport: stdio); a server with an address could not be reached in it."
    : undefined;
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
