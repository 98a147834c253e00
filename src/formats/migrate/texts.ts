import { escapeTemplate, parseTemplate } from "../../templates/template.ts";

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

/** A text that is not a template in the older forms, written so that as one it gives itself; braces that need no escape stay. */
export function literalText(text: string): string {
  return withoutNeedlessEscapes(escapeTemplate(text));
}

/** The same template, with braces doubled only where they would be read as something else. */
export function withoutNeedlessEscapes(template: string): string {
  const parts = parseTemplate(template);
  const slim = parts.map((part) => (typeof part === "string" ? escapeSparingly(part) : part.text)).join("");
  return JSON.stringify(parseTemplate(slim)) === JSON.stringify(parts) ? slim : template;
}

/** The template with another one in the place of an expression. */
export function withoutExpression(template: string, expression: string, other: string): string {
  if (!template.includes(expression)) return template;
  const parts = parseTemplate(template).map((part) => {
    if (typeof part === "string") return escapeTemplate(part);
    return part.text === expression ? other : part.text;
  });
  return withoutNeedlessEscapes(parts.join(""));
}

/** Doubles the braces that begin an expression or stand together, and as many closing ones after them. */
function escapeSparingly(text: string): string {
  const expressions = new Set(expressionStarts(text));
  let open = 0;
  let written = "";
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    const together = text[at + 1] === "{" || text[at - 1] === "{";
    const opens = character === "{" && (together || expressions.has(at));
    const closes = character === "}" && open > 0;
    if (opens) open += 1;
    if (closes) open -= 1;
    written += opens || closes ? character + character : character;
  }
  return written;
}

function expressionStarts(text: string): number[] {
  let at = 0;
  return parseTemplate(text.replaceAll("{{", "  ")).flatMap((part) => {
    const start = at;
    at += typeof part === "string" ? part.length : part.text.length;
    return typeof part === "string" ? [] : [start];
  });
}
