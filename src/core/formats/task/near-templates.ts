import { expressionPattern } from "../../templates/parse-template.ts";
import { taskRoots } from "../../templates/scope.ts";
import { didYouMean, isOneEditFrom } from "../did-you-mean.ts";
import type { Locals } from "./template-names.ts";

/** Something in a text that stays as it is, although it looks much like a template. */
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
