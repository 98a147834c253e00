import { McpvalsError } from "../../errors/error.ts";
import { filtersHint } from "../../templates/expand.ts";
import {
  type Expression,
  expressionPattern,
  parseTemplate,
  type TemplatePart,
} from "../../templates/parse-template.ts";
import type { FindPlace } from "../../templates/places.ts";
import { isTrustedRoot, taskRoots, type Trust } from "../../templates/scope.ts";
import { selectJson } from "../../templates/select-json.ts";
import { placeInShell } from "../../templates/shell-line.ts";
import { didYouMean, isOneEditFrom, suggestion } from "../did-you-mean.ts";
import { formatKeyPath, type Json, type KeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import type { HasNames } from "../step-kinds.ts";
import type { Findings } from "./task-options.ts";

/** Outputs that a step declares; `any` when only the step knows them. */
export type DeclaredOutputs = readonly string[] | "any";

/** What templates of a task may refer to, wherever they stand. */
export interface TaskNames {
  /** Variables that the task declares or requires. */
  readonly env: ReadonlySet<string>;
  /** Those of the command line and the shell. */
  readonly variables: Readonly<Record<string, string>>;
  /** Servers that have an address, as far as is known. */
  readonly urls: readonly string[];
  /** Servers of the task that are local programs. */
  readonly local: readonly string[];
  /** Ids of all steps. */
  readonly ids: readonly string[];
  /** Ids of actions of the solution. */
  readonly solutionIds: readonly string[];
}

/** The roots that only some texts of a task have, such as the variable of a `foreach`. */
export type Locals = ReadonlyMap<string, HasNames & Trust>;

/** Where a text stands, as far as that says what it may refer to. */
export interface TextScope {
  readonly names: TaskNames;
  readonly locals: Locals;
  /** Outputs of the steps that come before. */
  readonly earlier: ReadonlyMap<string, DeclaredOutputs>;
  /** Roots that do not exist here, with the reason. */
  readonly absent: Readonly<Record<string, string>>;
}

/** The parts of a text of a task, with the roots that exist where it stands. */
export function partsOf(text: string, locals: Locals): readonly TemplatePart[] {
  return parseTemplate(text, (root) => locals.has(root) || taskRoots.some((each) => each === root));
}

/** Whether an expression gives a value from outside. Roots that stand for no value themselves are text: `{agent}`. */
export function isFromOutside({ root, names }: Expression, locals: Locals): boolean {
  const local = locals.get(root);
  return !isTrustedRoot(root, local) && (local !== undefined || names.length > 0);
}

/** What a text without templates says; undefined when it has one. */
export function staticText(text: string, locals: Locals): string | undefined {
  const parts = partsOf(text, locals);
  const texts = parts.filter((part) => typeof part === "string");
  return texts.length === parts.length ? texts.join("") : undefined;
}

/** A text and where it stands. */
export interface PlacedText {
  readonly text: string;
  readonly path: KeyPath;
}

/** Every text with braces in a value, with its path. */
export function textsIn(value: Json, path: KeyPath): readonly PlacedText[] {
  if (typeof value === "string") return value.includes("{") ? [{ text: value, path }] : [];
  if (typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item: Json, index) => textsIn(item, [...path, index]));
  return Object.entries(value).flatMap(([key, member]) => textsIn(member, [...path, key]));
}

/**
 * Checks the values from outside in a text, which are those of an agent, a server or a program: refuses the first that
 * cannot be written where it stands.
 */
export function checkPlaces(
  { text, path }: PlacedText,
  locals: Locals,
  findPlace: FindPlace | "shell",
): Problem[] {
  if (!text.includes("{")) return [];
  const parts = partsOf(text, locals).map((part, index) => {
    if (typeof part === "string") return part;
    if (isFromOutside(part, locals) && part.filter?.kind !== "raw") return { expression: part.text };
    // Something that fits into any text, also where an address begins.
    return index === 0 ? "http://x" : "x";
  });
  return problemsOf(path, () => {
    if (findPlace === "shell") placeInShell(parts);
    else
      parts.reduce<string>(
        (before, part) =>
          before + (typeof part === "string" ? part : findPlace(before, part.expression).sample),
        "",
      );
  });
}

/** The McpvalsError that an action throws, as a problem of a place. */
export function problemsOf(path: KeyPath, act: () => void): Problem[] {
  try {
    act();
    return [];
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { code, message, details } = error;
    const hint = details.hint === undefined ? {} : { hint: details.hint };
    return [{ code, message: `${formatKeyPath(path)}: ${message}`, path, at: "value", ...hint }];
  }
}

/** What is wrong with the templates of a text. */
export function checkText(text: string, path: KeyPath, scope: TextScope): Problem[] {
  return partsOf(text, scope.locals).flatMap((part) => {
    if (typeof part === "string") return [];
    const found = [nameProblem(part, scope), filterProblem(part)].filter((each) => each !== undefined);
    return found.map(({ what, hint, sameAs }): Problem => ({
      code: "config/unknown-reference",
      message: `${formatKeyPath(path)}: ${part.text} ${what}`,
      path,
      at: "value",
      text: part.text,
      ...(hint === undefined ? {} : { hint }),
      ...(sameAs === undefined ? {} : { sameAs }),
    }));
  });
}

/** Names that one that is not known is compared with. */
const mostCompared = 200;

interface Wrong {
  /** Goes on after the expression. */
  readonly what: string;
  readonly hint?: string;
  readonly sameAs?: string;
}

function nameProblem(expression: Expression, scope: TextScope): Wrong | undefined {
  const { root, names, variant } = expression;
  const local = scope.locals.get(root);
  if (variant !== undefined && (root !== "random" || local !== undefined)) {
    return { what: `cannot have a name after ":"`, hint: "Only {random.id:NAME} and {random.port:NAME} do." };
  }
  if (local !== undefined) return local(names) ? undefined : { what: "refers to nothing" };
  const reason = scope.absent[root];
  if (reason !== undefined && names.length > 0) return { what: reason };
  // A root alone in braces is text, except the one that has a value of its own.
  if (names.length === 0 && variant === undefined) return undefined;
  return rootProblem(expression, scope);
}

function rootProblem({ root, names }: Expression, scope: TextScope): Wrong | undefined {
  switch (root) {
    case "env":
      return envProblem(names, scope.names);
    case "steps":
      return stepProblem(names, scope);
    case "servers":
      return serverProblem(names, scope.names);
    case "random":
      return oneOf(names, ["id", "port"]);
    case "task":
      return oneOf(names, ["name"]);
    case "agent":
      return oneOf(names, ["output"]);
    default:
      return { what: "refers to nothing", hint: "{workspace} is a path, and has no names." };
  }
}

function oneOf(names: readonly string[], known: readonly string[]): Wrong | undefined {
  const [name = "", ...rest] = names;
  if (known.includes(name) && rest.length === 0) return undefined;
  return { what: "refers to nothing", hint: suggestion(names.join("."), known, "names") };
}

function envProblem([name = "", ...rest]: readonly string[], names: TaskNames): Wrong | undefined {
  const { env, variables } = names;
  if (rest.length > 0) return { what: "refers to nothing", hint: "A variable is a text, and has no names." };
  if (env.has(name) || Object.hasOwn(variables, name)) return undefined;
  const near = didYouMean(name, [...env, ...Object.keys(variables)].slice(0, mostCompared));
  const meant = near === undefined ? "" : `Did you mean "${near}"? `;
  const hint = `${meant}Declare it in spec.env, pass --env ${name}=VALUE, set it, or add {env: ${name}} to spec.requires.`;
  return { what: "is a variable that is not set", hint, sameAs: `env.${name}` };
}

function serverProblem(names: readonly string[], { urls, local }: TaskNames): Wrong | undefined {
  const [name = "", key, ...rest] = names;
  if (local.includes(name)) return { what: "has no address: that server is a local program" };
  if (!urls.includes(name)) return { what: "names no server", hint: suggestion(name, urls, "servers") };
  const fits = key === "url" && rest.length === 0;
  return fits ? undefined : { what: "refers to nothing", hint: "Of a server there is {servers.NAME.url}." };
}

function stepProblem(names: readonly string[], { names: known, earlier }: TextScope): Wrong | undefined {
  const [id = "", key, name, ...rest] = names;
  const declared = earlier.get(id);
  if (declared === undefined) return missingStep(id, known);
  if (key !== "outputs") return { what: "refers to nothing", hint: "Write {steps.ID.outputs.NAME}." };
  if (declared === "any" || name === undefined) return undefined;
  if (!declared.includes(name)) {
    return { what: `names no output of the step ${id}`, hint: suggestion(name, declared, "outputs") };
  }
  return rest.length === 0
    ? undefined
    : { what: "refers to nothing", hint: "An output is a text; read JSON with {… | json $.path}." };
}

function missingStep(id: string, { ids, solutionIds }: TaskNames): Wrong {
  if (ids.includes(id)) return { what: `names the step ${id}, which has not run yet` };
  if (solutionIds.includes(id)) {
    return { what: `names an action of the solution, which only the agent "oracle" plays` };
  }
  return { what: "names no step", hint: suggestion(id, ids.slice(0, mostCompared), "step ids") };
}

function filterProblem({ filter }: Expression): Wrong | undefined {
  if (filter === undefined || filter.kind === "sh" || filter.kind === "raw") return undefined;
  if (filter.kind === "unknown") {
    return { what: `has no known filter: ${JSON.stringify(filter.text)}`, hint: filtersHint };
  }
  try {
    selectJson(null, filter.path);
    return undefined;
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { hint } = error.details;
    return { what: `has no JSON path: ${error.message}`, ...(hint === undefined ? {} : { hint }) };
  }
}

/** The variable of a `foreach`: a list that is written out has to have the names in all of its items. */
export function variableOf(items: Json, trust: Trust): HasNames & Trust {
  const has = (names: readonly string[]): boolean =>
    !Array.isArray(items) || items.every((item: Json) => leads(item, names));
  return Object.assign(has, trust);
}

function leads(item: Json, names: readonly string[]): boolean {
  const [name, ...rest] = names;
  if (name === undefined) return true;
  if (typeof item !== "object" || item === null || !Object.hasOwn(item, name)) return false;
  return leads((item as Readonly<Record<string, Json>>)[name] ?? null, rest);
}

/** Something in a text that looks like a template, but is none. */
export interface NearTemplate {
  /** As written. */
  readonly text: string;
  /** Its first word. */
  readonly root: string;
  /** Why it is taken as text; goes on after the text. */
  readonly why: string;
  /** Whether it has the form of a template, so that only its first word is wrong. */
  readonly isWhole: boolean;
  /** What it most likely should be; undefined when it is no more than a word in braces. */
  readonly meant?: string;
  /** Its first word is a name that there is, but for one slip. */
  readonly isSlip?: true;
}

/**
 * Finds what looks like a template and is none: a first word that no root has, a `$` before it, a missing brace, spaces or
 * brackets inside. JSON, variables of the shell, repetitions in patterns and templates with double braces do not.
 */
export function nearTemplates(text: string, locals: Locals): readonly NearTemplate[] {
  const found: NearTemplate[] = [];
  for (let at = text.indexOf("{"); at !== -1; at = text.indexOf("{", at)) {
    const isEscape = text[at + 1] === "{";
    const near = isEscape ? undefined : nearAt(text, at, locals);
    if (near !== undefined) found.push(near);
    at += isEscape ? 2 : 1;
  }
  return found;
}

function nearAt(text: string, at: number, locals: Locals): NearTemplate | undefined {
  if (text[at - 1] === "$") return afterDollar(text, at, locals);
  expressionPattern.lastIndex = at;
  const match = expressionPattern.exec(text);
  return match === null ? misshapen(text, at, locals) : misnamed(match, locals);
}

function isRoot(word: string, locals: Locals): boolean {
  return locals.has(word) || taskRoots.some((root) => root === word);
}

const dotted = /\{\s*([A-Za-z_][\w-]*)\.[\w.-]+[^{}\n]*\}?/y;

/** A name of the shell has no dot. */
function afterDollar(text: string, at: number, locals: Locals): NearTemplate | undefined {
  dotted.lastIndex = at;
  const [whole, root = ""] = dotted.exec(text) ?? [];
  if (whole === undefined || !isRoot(root, locals)) return undefined;
  return { text: `$${whole}`, root, why: "after $ nothing is replaced", isWhole: false, meant: whole };
}

function misnamed(
  [whole, root = "", names = "", variant]: RegExpExecArray,
  locals: Locals,
): NearTemplate | undefined {
  if (isRoot(root, locals)) return undefined;
  const why = `nothing is named ${root} here`;
  const meant = meantRoot(root, names !== "" || variant !== undefined, locals);
  // A word, a colon and another word may be many things.
  const isNear = meant !== undefined && (variant === undefined || meant === "random");
  const near = { text: whole, root, why, isWhole: true };
  if (!isNear) return near;
  const slip = isOneEditFrom(root, meant) ? { isSlip: true as const } : {};
  return { ...near, meant: whole.replace(root, meant), ...slip };
}

/** Shortest words of which one letter may be wrong. */
const shortest = 3;

function meantRoot(root: string, hasNames: boolean, locals: Locals): string | undefined {
  // Alone in braces only these have a value.
  const alone = [...locals.keys(), "workspace"];
  const meant = didYouMean(root, hasNames ? [...alone, ...taskRoots] : alone);
  if (meant === undefined) return undefined;
  const isLong = Math.min(root.length, meant.length) >= shortest;
  return isLong || root.toLowerCase() === meant.toLowerCase() ? meant : undefined;
}

const begun = /\{(\s*)([A-Za-z_][\w-]*)(\s*\.\s*[\w-]|\s*\[|\/)([^{}\n]*)(\}?)/y;
/** In braces these are of a program, or alternatives of the shell. */
const otherSigns = /[=;(,]/;

function misshapen(text: string, at: number, locals: Locals): NearTemplate | undefined {
  begun.lastIndex = at;
  const [whole, spaces = "", root = "", sign, rest = "", brace] = begun.exec(text) ?? [];
  if (whole === undefined || !isRoot(root, locals) || otherSigns.test(rest)) return undefined;
  if (sign === "/" && root !== "workspace") return undefined;
  const isOpen = brace === "";
  if (isOpen && spaces !== "") return undefined;
  const why = isOpen ? "it has no closing brace" : "a template is names with dots between them, and no more";
  return { text: isOpen ? (/^\S+/.exec(whole)?.[0] ?? whole) : whole, root, why, isWhole: false };
}

/** Reports what in a text is no template: names with one slip as problems, what was most likely meant to be one as notes. */
export function checkSpelling(text: string, path: KeyPath, locals: Locals): Findings {
  const near = nearTemplates(text, locals);
  const doubtful = near.filter(({ isWhole, meant, isSlip }) => !isSlip && (!isWhole || meant !== undefined));
  return {
    problems: near.filter(({ isSlip }) => isSlip).map((each) => unknownTemplate(each, path)),
    notes: doubtful.map(({ text: part, why, meant }) => ({
      message: `${formatKeyPath(path)}: ${part} is taken as text: ${why}${meant === undefined ? "" : `; did you mean ${meant}?`}`,
      path,
      text: part,
    })),
  };
}

/**
 * The words in braces of a path that are no names; in a path they can only be meant as templates. Undefined for a path
 * without any; those with one slip are reported as everywhere, by `checkSpelling`.
 */
export function unknownInPath(text: string, path: KeyPath, locals: Locals): Problem[] | undefined {
  const unknown = nearTemplates(text, locals).filter(({ isWhole }) => isWhole);
  if (unknown.length === 0) return undefined;
  return unknown.filter(({ isSlip }) => !isSlip).map((near) => unknownTemplate(near, path));
}

function unknownTemplate({ text, why, meant }: NearTemplate, path: KeyPath): Problem {
  const question = meant === undefined ? "" : `Did you mean ${meant}? `;
  return {
    code: "config/unknown-reference",
    message: `${formatKeyPath(path)}: ${text} is not a template: ${why}`,
    path,
    at: "value",
    text,
    hint: `${question}For the text itself write {${text}}.`,
  };
}

/** Checks the text of an output, in which a word in braces can only be meant as a template; `values` are the roots that only outputs have. */
export function checkOutput(
  text: string,
  path: KeyPath,
  { locals, values }: { readonly locals: Locals; readonly values: Locals },
): Findings {
  const near = nearTemplates(text, locals);
  if (near.length > 0)
    return { problems: near.map((each) => unknownInOutput(each, path, values)), notes: [] };
  if (staticText(text, locals) === undefined) return { problems: [], notes: [] };
  const message = `${formatKeyPath(path)} has no template, so that it is always the same text`;
  return { problems: [], notes: [{ message, path }] };
}

function unknownInOutput(near: NearTemplate, path: KeyPath, values: Locals): Problem {
  const { text, root, isWhole, why, meant } = near;
  const names = [...values].flatMap(([name, has]) => (has([]) || has(["x"]) ? [name] : []));
  const malformed =
    meant === undefined ? "Write {NAME}, or {{ for a literal brace." : `Did you mean ${meant}?`;
  return {
    code: "config/unknown-reference",
    message: `${formatKeyPath(path)}: ${text} ${isWhole ? "refers to nothing" : `is not a template: ${why}`}`,
    path,
    at: "value",
    text,
    hint: isWhole ? suggestion(root, [...names, ...taskRoots], "names") : malformed,
  };
}
