import { outsideProblem } from "../../graders/declared.ts";
import { McpvalsError } from "../../base/error.ts";
import { filtersHint } from "../../templates/expand.ts";
import {
  type Expression,
  expressionPattern,
  isTaskRoot,
  isTrustedRoot,
  parseTemplate,
  taskRoots,
  type TemplatePart,
  type Trust,
} from "../../templates/template.ts";
import type { FindPlace } from "../../templates/places.ts";
import { selectJson } from "../../templates/select-json.ts";
import { placeInShell } from "../../templates/shell.ts";
import { didYouMean, isOneEditFrom, suggestion } from "../../base/did-you-mean.ts";
import type { Json, KeyPath } from "../../base/json.ts";
import { type Problem, problemAt } from "../../base/problem.ts";
import type { HasNames } from "../../model/step.ts";
import type { Findings, TaskFiles } from "./task-options.ts";

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
  readonly ids: readonly string[];
  readonly solutionIds: readonly string[];
}

/** The roots that only some texts of a task have, such as the variable of a `foreach`. */
export type Locals = ReadonlyMap<string, HasNames & Trust>;

/** What a text may refer to because of its place. */
export interface TextScope {
  readonly names: TaskNames;
  readonly locals: Locals;
  /** Outputs of the steps that come before. */
  readonly earlier: ReadonlyMap<string, DeclaredOutputs>;
  /** Roots that do not exist here, with the reason. */
  readonly absent: Readonly<Record<string, string>>;
}

function isRoot(word: string, locals: Locals): boolean {
  return locals.has(word) || isTaskRoot(word);
}

/** The parts of a text of a task, with the roots that exist where it stands. */
export function partsOf(text: string, locals: Locals): readonly TemplatePart[] {
  return parseTemplate(text, (root) => isRoot(root, locals));
}

export function expressionsIn(text: string, locals: Locals): readonly Expression[] {
  return partsOf(text, locals).filter((part) => typeof part === "object");
}

/** Whether an expression gives a value from outside. Roots that have no value themselves are text: `{agent}`. */
export function isFromOutside({ root, names }: Expression, locals: Locals): boolean {
  const local = locals.get(root);
  return !isTrustedRoot(root, local) && (local !== undefined || names.length > 0);
}

/** The text that a template without expressions gives; undefined when it has one. */
export function staticText(text: string, locals: Locals = new Map()): string | undefined {
  const parts = partsOf(text, locals);
  return parts.every((part) => typeof part === "string") ? parts.join("") : undefined;
}

interface PlacedText {
  readonly text: string;
  readonly path: KeyPath;
}

/** Every text with braces in a value, with its path. */
export function textsIn(value: Json, path: KeyPath = []): readonly PlacedText[] {
  if (typeof value === "string") return value.includes("{") ? [{ text: value, path }] : [];
  if (typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item: Json, index) => textsIn(item, [...path, index]));
  return Object.entries(value).flatMap(([key, member]) => textsIn(member, [...path, key]));
}

/** Refuses the first value from outside (from an agent, a server or a program) that cannot be written where it stands. */
export function checkPlaces(
  { text, path }: PlacedText,
  locals: Locals,
  { findPlace, found }: { readonly findPlace: FindPlace | "shell"; readonly found: Findings },
): void {
  if (!text.includes("{")) return;
  const parts = partsOf(text, locals).map((part, index) => {
    if (typeof part === "string") return part;
    if (isFromOutside(part, locals) && part.filter?.kind !== "raw") return { expression: part.text };
    // Something that fits into any text, also where an address begins.
    return index === 0 ? "http://x" : "x";
  });
  found.attempt(path, () =>
    findPlace === "shell"
      ? placeInShell(parts)
      : parts.reduce<string>(
          (before, part) =>
            before + (typeof part === "string" ? part : findPlace(before, part.expression).sample),
          "",
        ),
  );
}

/** Checks what the templates of a text refer to. */
export function checkText(text: string, path: KeyPath, scope: TextScope, found: Findings): void {
  for (const expression of expressionsIn(text, scope.locals))
    for (const { what, ...details } of [...nameProblem(expression, scope), ...filterProblem(expression)])
      found.refuse(path, `: ${expression.text} ${what}`, {
        code: "config/unknown-reference",
        text: expression.text,
        ...details,
      });
}

interface Wrong {
  /** Goes on after the expression. */
  readonly what: string;
  readonly hint?: string | undefined;
  readonly sameAs?: string;
}

const nothing = "refers to nothing";
const fixedNames = { random: ["id", "port"], task: ["name"], agent: ["output"] };

function nameProblem({ root, names, variant }: Expression, scope: TextScope): Wrong[] {
  const { names: known, locals, absent } = scope;
  const local = locals.get(root);
  if (variant !== undefined && (root !== "random" || local !== undefined))
    return [
      { what: `cannot have a name after ":"`, hint: "Only {random.id:NAME} and {random.port:NAME} do." },
    ];
  if (local !== undefined) return local(names) ? [] : [{ what: nothing }];
  const reason = absent[root];
  if (reason !== undefined && names.length > 0) return [{ what: reason }];
  // A root alone in braces is text, except the one that has a value of its own.
  if (names.length === 0 && variant === undefined) return [];
  const [name = "", key, ...rest] = names;
  switch (root) {
    case "env":
      if (key !== undefined) return [{ what: nothing, hint: "A variable is a text, and has no names." }];
      return known.env.has(name) || Object.hasOwn(known.variables, name) ? [] : [unsetVariable(name, known)];
    case "servers":
      if (known.local.includes(name)) return [{ what: "has no address: that server is a local program" }];
      if (!known.urls.includes(name))
        return [{ what: "names no server", hint: suggestion(name, known.urls, "servers") }];
      if (key === "url" && rest.length === 0) return [];
      return [{ what: nothing, hint: "Of a server there is {servers.NAME.url}." }];
    case "steps":
      return stepProblem(names, scope);
    case "random":
    case "task":
    case "agent":
      if (key === undefined && fixedNames[root].includes(name)) return [];
      return [{ what: nothing, hint: suggestion(names.join("."), fixedNames[root], "names") }];
    default:
      return [{ what: nothing, hint: "{workspace} is a path, and has no names." }];
  }
}

function unsetVariable(name: string, { env, variables }: TaskNames): Wrong {
  const near = didYouMean(name, [...env, ...Object.keys(variables)]);
  const meant = near === undefined ? "" : `Did you mean "${near}"? `;
  const hint = `${meant}Declare it in spec.env, pass --env ${name}=VALUE, set it, or add {env: ${name}} to spec.requires.`;
  return { what: "is a variable that is not set", hint, sameAs: `env.${name}` };
}

function stepProblem(
  [id = "", key, name, ...rest]: readonly string[],
  { names: { ids, solutionIds }, earlier }: TextScope,
): Wrong[] {
  const declared = earlier.get(id);
  if (declared === undefined) {
    if (ids.includes(id)) return [{ what: `names the step ${id}, which has not run yet` }];
    if (solutionIds.includes(id))
      return [{ what: `names an action of the solution, which only the agent "oracle" plays` }];
    return [{ what: "names no step", hint: suggestion(id, ids, "step ids") }];
  }
  if (key !== "outputs") return [{ what: nothing, hint: "Write {steps.ID.outputs.NAME}." }];
  if (declared === "any" || name === undefined) return [];
  if (!declared.includes(name))
    return [{ what: `names no output of the step ${id}`, hint: suggestion(name, declared, "outputs") }];
  if (rest.length === 0) return [];
  return [{ what: nothing, hint: "An output is a text; read JSON with {… | json $.path}." }];
}

function filterProblem({ filter }: Expression): Wrong[] {
  if (filter?.kind === "unknown")
    return [{ what: `has no known filter: ${JSON.stringify(filter.text)}`, hint: filtersHint }];
  if (filter?.kind !== "json") return [];
  try {
    selectJson(null, filter.path);
    return [];
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    return [{ what: `has no JSON path: ${error.message}`, hint: error.details.hint }];
  }
}

/** The variable of a `foreach`: the items of a literal list must all have the names. */
export function variableOf(items: Json, trust: Trust): HasNames & Trust {
  const has = (names: readonly string[]): boolean =>
    !Array.isArray(items) || items.every((item: Json) => leads(item, names));
  return Object.assign(has, trust);
}

function leads(item: Json, [name, ...rest]: readonly string[]): boolean {
  if (name === undefined) return true;
  if (typeof item !== "object" || item === null || !Object.hasOwn(item, name)) return false;
  return leads((item as Readonly<Record<string, Json>>)[name] ?? null, rest);
}

/** Something in a text that looks like a template, but is none. */
interface NearTemplate {
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
  /** Its first word is one edit from a known name. */
  readonly isSlip?: boolean;
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

const dotted = /\{\s*([A-Za-z_][\w-]*)\.[\w.-]+[^{}\n]*\}?/y;
const begun = /\{(\s*)([A-Za-z_][\w-]*)(\s*\.\s*[\w-]|\s*\[|\/)([^{}\n]*)(\}?)/y;

function nearAt(text: string, at: number, locals: Locals): NearTemplate | undefined {
  const matchHere = (pattern: RegExp): readonly (string | undefined)[] => {
    pattern.lastIndex = at;
    return pattern.exec(text) ?? [];
  };
  if (text[at - 1] === "$") {
    // A name of the shell has no dot.
    const [whole, root = ""] = matchHere(dotted);
    if (whole === undefined || !isRoot(root, locals)) return undefined;
    return { text: `$${whole}`, root, why: "after $ nothing is replaced", isWhole: false, meant: whole };
  }
  const [template, name = "", names, variant] = matchHere(expressionPattern);
  if (template !== undefined) {
    if (isRoot(name, locals)) return undefined;
    const near = { text: template, root: name, why: `nothing is named ${name} here`, isWhole: true };
    const meant = meantRoot(name, names !== "" || variant !== undefined, locals);
    // A word, a colon and another word may be many things.
    if (meant === undefined || (variant !== undefined && meant !== "random")) return near;
    return { ...near, meant: template.replace(name, meant), isSlip: isOneEditFrom(name, meant) };
  }
  const [whole, spaces, root = "", sign, rest = "", brace] = matchHere(begun);
  // With these signs it is a program, or alternatives of the shell.
  if (whole === undefined || !isRoot(root, locals) || /[=;(,]/.test(rest)) return undefined;
  if ((sign === "/" && root !== "workspace") || (brace === "" && spaces !== "")) return undefined;
  return brace === ""
    ? { text: /^\S+/.exec(whole)?.[0] ?? whole, root, why: "it has no closing brace", isWhole: false }
    : { text: whole, root, why: "a template is names with dots between them, and no more", isWhole: false };
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

/** Refuses misspelt templates with one slip, and notes what was most likely meant to be one. */
export function checkSpelling(text: string, path: KeyPath, locals: Locals, found: Findings): void {
  for (const near of nearTemplates(text, locals)) {
    const { isSlip = false, isWhole, meant, why } = near;
    if (isSlip) refuseUnknown(near, path, found);
    else if (!isWhole || meant !== undefined)
      found.note(
        path,
        `: ${near.text} is taken as text: ${why}${meant === undefined ? "" : `; did you mean ${meant}?`}`,
        near.text,
      );
  }
}

function refuseUnknown({ text, why, meant }: NearTemplate, path: KeyPath, found: Findings): void {
  const question = meant === undefined ? "" : `Did you mean ${meant}? `;
  const hint = `${question}For the text itself write {${text}}.`;
  found.refuse(path, `: ${text} is not a template: ${why}`, { code: "config/unknown-reference", text, hint });
}

/** Checks the text of an output, in which a word in braces can only be meant as a template; `values` are the roots that only outputs have. */
export function checkOutput(
  text: string,
  path: KeyPath,
  { locals, values, found }: { readonly locals: Locals; readonly values: Locals; readonly found: Findings },
): void {
  const near = nearTemplates(text, locals);
  const names = [...values].flatMap(([name, has]) => (has([]) || has(["x"]) ? [name] : []));
  for (const { text: written, root, isWhole, why, meant } of near) {
    const malformed =
      meant === undefined ? "Write {NAME}, or {{ for a literal brace." : `Did you mean ${meant}?`;
    found.refuse(path, `: ${written} ${isWhole ? nothing : `is not a template: ${why}`}`, {
      code: "config/unknown-reference",
      text: written,
      hint: isWhole ? suggestion(root, [...names, ...taskRoots], "names") : malformed,
    });
  }
  if (near.length === 0 && staticText(text, locals) !== undefined)
    found.note(path, "has no template, so that it is always the same text");
}

export interface FileWanted {
  readonly files: TaskFiles;
  /** `file`: it must be one; `any`: a file or a folder; `inside`: it only must not lead out of the task's folder. */
  readonly wanted: "file" | "any" | "inside";
}

/** Checks a path with templates, as far as it is known before the task runs. */
export function checkPath(
  { text, path }: PlacedText,
  wanted: FileWanted,
  { found, locals = new Map() }: { readonly found: Findings; readonly locals?: Locals },
): void {
  const unknown = nearTemplates(text, locals).filter(({ isWhole }) => isWhole);
  if (unknown.length > 0) {
    // In a path a word in braces can only be meant as a template; `checkSpelling` reports the slips.
    for (const near of unknown) if (near.isSlip !== true) refuseUnknown(near, path, found);
    return;
  }
  const file = staticText(text, locals);
  if (file !== undefined) found.add(checkFilePath(file, path, wanted));
  // Where paths may leave the task's folder, they may leave the workspace.
  else if (leavesWorkspace(text, locals) && wanted.files.look("..") === "outside")
    found.refuse(path, `: ${JSON.stringify(text)} leads out of the workspace`, {
      code: "task/outside",
      hint: "Keep what a task makes inside {workspace}, or allow the path with --allow-outside.",
    });
}

/** Whether a path that begins with `{workspace}`, and has no other template, goes up above it. */
function leavesWorkspace(text: string, locals: Locals): boolean {
  const [first, ...rest] = partsOf(text, locals);
  if (typeof first !== "object" || first.root !== "workspace" || locals.has("workspace")) return false;
  if (!rest.every((part) => typeof part === "string")) return false;
  let depth = 0;
  for (const name of rest.join("").split("/")) {
    if (name === "..") depth -= 1;
    else if (name !== "" && name !== ".") depth += 1;
    if (depth < 0) return true;
  }
  return false;
}

/** What is wrong with a path in a task, relative to its folder. */
export function checkFilePath(file: string, path: KeyPath, { files, wanted }: FileWanted): Problem[] {
  const named = JSON.stringify(file);
  switch (files.look(file)) {
    case "outside":
      return [outsideProblem(path, file)];
    case "nothing": {
      const missing = `: there is no ${wanted === "file" ? "file" : "file or folder"} ${named} in the task's folder`;
      return wanted === "inside" ? [] : [problemAt(path, missing, { code: "config/unknown-reference" })];
    }
    case "folder":
      return wanted === "file" ? [problemAt(path, `: ${named} is a folder, not a file`)] : [];
    case "file":
      return [];
  }
}
