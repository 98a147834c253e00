import { McpvalsError } from "../base/error.ts";

/** Shells that read `"$NAME"` as the value of a variable, whatever it holds. */
const shells = /^(?:ba|da|a|z|k|mk|fi|ya)?sh$/;

/** Whether a program, by its path, is a shell for which values can be placed in a text. */
export function isShell(program: string): boolean {
  return shells.test(baseName(program));
}

/** The program, as it is named, that reads a script; undefined when the script leaves it to the shell of the task. */
export function scriptProgram(script: string): string | undefined {
  const [, first, rest = ""] = /^\s*#![ \t]*(\S+)[ \t]*(.*)/.exec(script) ?? [];
  if (first === undefined || baseName(first) !== "env") return first;
  return rest.split(/\s+/).find((word) => !/^-|=/.test(word)) ?? first;
}

/** The name of a program, without its folders. */
function baseName(program: string): string {
  return (program.split(/[/\\]/).at(-1) ?? "").toLowerCase().replace(/\.exe$/, "");
}

/** A value from outside in a text. */
export interface ShellValue {
  /** Stands for it in messages. */
  readonly expression: string;
  /** Undefined while it is not known. */
  readonly value?: string;
}

/** A text for a shell, and the variables that it reads. */
export interface ShellText {
  readonly text: string;
  readonly variables: Readonly<Record<string, string>>;
}

/** What the variables are called in which a shell finds values from outside; a number follows. */
const variablePrefix = "MCPVALS_VALUE_";

/** Whether a process gets values from outside as variables, since a text for a shell refers to them. */
export function hasShellValues(env: Readonly<Record<string, string>>): boolean {
  return Object.keys(env).some((name) => name.startsWith(variablePrefix));
}

/** A text for a shell with the values in it, to be read by people. */
export function displayShellText(text: string, env: Readonly<Record<string, unknown>>): string {
  return text.replaceAll(/\$\{?(MCPVALS_VALUE_\d+)\}?/g, (written, name: string) => {
    const value = env[name];
    return typeof value === "string" ? value : written;
  });
}

/**
 * Makes a text for a shell of texts that the author wrote and values from outside. Each value becomes a variable of the process, which
 * the shell expands where it takes a word, also in quotes, so that it never reads the value as a part of the text. Throws McpvalsError
 * `task/untrusted-value` in any other place, and in a text in which some command runs what it is given; and `task/unfit-value` for a
 * value that a program could read as an option.
 */
export function placeInShell(parts: readonly (string | ShellValue)[]): ShellText {
  const values = parts.filter((part) => typeof part !== "string");
  const [first] = values;
  let count = 0;
  const marked = parts.map((part) => (typeof part === "string" ? part : shellMark(String((count += 1)))));
  const whole = marked.join("");
  if (first === undefined) return { text: whole, variables: {} };
  const code = whole.replaceAll(/^\s*#.*$/gm, "");
  const running = runningForms.flatMap((form) => form.exec(code)?.[1] ?? []).at(0);
  if (running !== undefined)
    throw refused(first.expression, `in a text with ${running.trim()}, which may run what it is given`);
  try {
    const comparesNumbers = /\s-(?:eq|ne|lt|le|gt|ge)\s/.test(whole);
    const text = placeVariables(whole, (mark, place) => {
      const known = values[Number(mark) - 1];
      if (known === undefined) throw new ShellTextError("it has a character that no shell takes");
      checkValue(known, place, comparesNumbers);
      return `${variablePrefix}${mark}`;
    });
    const known = values.map(({ value = "" }, index) => [`${variablePrefix}${index + 1}`, value] as const);
    return { text, variables: Object.fromEntries(known) };
  } catch (error) {
    if (!(error instanceof ShellTextError)) throw error;
    throw refused(first.expression, `in a text that cannot be followed: ${error.message}`);
  }
}

/** Programs that an option, or else their first argument or their input, tells what to run. */
const interpreter = String.raw`(?:\S*\/)?(?:(?:ba|da|a|z|k|mk|fi|ya|c|tc|pw)?sh|busybox|powershell|su|python[\d.]*|pypy[\d.]*|node(?:js)?|deno|bun|tsx|perl[\d.]*|ruby|php|lua[\d.]*|luajit|Rscript|julia|osascript)`;
/** Options after which the text of a program follows. */
const programOption = String.raw`(?:-\w*[cepr]|--(?:eval|print|command|exec))`;
/** Words, with their options, after which the name of a program stands. */
const wrapper =
  "(?:(?:if|then|else|elif|do|while|until|!|\\{|time|coproc|sudo|doas|env|command|builtin|nohup|nice|setsid|stdbuf|unshare|nsenter|chroot|npx|timeout)(?:\\s+(?:-\\S+|\\d\\S*))*\\s+|\\w+=\\S*\\s+)*";
const anywhere = "(?:^|[\\s;&|({!`\"'])";
const atProgram = `(?:^|[;&|({!\`"'])\\s*${wrapper}(?:\\S*/)?`;

/** Commands that may run, or compute, what they are given: a text with one of them takes no value from outside. */
const runningForms: readonly RegExp[] = [
  new RegExp(
    `${atProgram}(eval|exec|xargs|ssh|source|trap|alias|parallel|watch|let|declare|typeset|read|mapfile|readarray|getopts|unset|busybox|[gmn]?awk|g?sed|jq|yq|bc|dc|psql|mysql|mariadb|sqlite3|duckdb|mongosh|ed|ex|vim?|emacs|expect|tclsh|script|flock|runuser|at|batch|\\.)(?=["'\\s]|$)`,
    "m",
  ),
  /\s(-exec(?:dir)?|-ok(?:dir)?)\s/,
  new RegExp(`${anywhere}(${interpreter})["']?\\s[^;&|\\n]*?(?<=\\s)${programOption}(?=[\\s"'=]|$)`, "m"),
  // One that reads its program from its input.
  new RegExp(`${anywhere}(${interpreter})(?:\\s+-s?)?[ \\t]*(?=[;&|)<]|$)`, "m"),
  /(\$\{?\w+\}?"?\s+-\w*c)(?=\s|$)/,
  /(\[\[|\(\(|\$\[)/,
  /((?:\btest|\[|\bprintf)\s+-v)\s/,
];

const beforeProgram = new RegExp(`^\\s*${wrapper}$`);

function isProgramPlace(command: string): boolean {
  const word = /\S*$/.exec(command)?.[0] ?? "";
  return !/^\w+\+?=/.test(word) && beforeProgram.test(command.slice(0, command.length - word.length));
}

/** Refuses a value where it would name a program, a file to write or a variable, or be an option. */
function checkValue(
  { expression, value }: ShellValue,
  { command, isRun }: ShellPlace,
  isNumber: boolean,
): void {
  if (isRun || isProgramPlace(command)) throw refused(expression, "where a program is named");
  if (/(?:^|[^<])[<>]&?\s*\S*$/.test(command)) throw refused(expression, "where a file is named");
  const assigned = /(?:^|\s)([A-Za-z_]\w*)\+?=\S*$/.exec(command)?.[1];
  if (assigned !== undefined && isCodeVariable(assigned))
    throw refused(expression, `in the variable ${assigned}, which decides what is run`);
  if (assigned === undefined && /^\s*(?:export|local|readonly)\s/.test(command))
    throw refused(expression, "where a variable is named");
  if (value === undefined) return;
  if (isNumber && !/^\s*-?\d+\s*$/.test(value))
    throw new McpvalsError("task/unfit-value", `${expression} gives a text where numbers are compared`, {
      hint: "Compare texts with = and !=.",
    });
  const takesTexts = /^\s*(?:echo|test|\[|case|for|return|printf\s+\S+)\s|\s--\s/.test(command);
  if (value.startsWith("-") && /\s$/.test(command) && !takesTexts)
    throw new McpvalsError(
      "task/unfit-value",
      `${expression} gives a text that begins with "-", which a program could read as an option`,
      { hint: "Write -- before it where the program knows that, or pass the value on stdin." },
    );
}

function refused(expression: string, where: string): McpvalsError {
  const hint = `Pass it as a variable: env: {VALUE: "${expression}"} in the step, and "$VALUE" in its text. To insert it as it is, write {… | raw}.`;
  return refusedValue(expression, where, hint);
}

/** The error for a value from outside where none can be; `where` goes on after "which cannot be used". */
export function refusedValue(expression: string, where: string, hint: string): McpvalsError {
  const message = `${expression} is a value from outside, which cannot be used ${where}`;
  return new McpvalsError("task/untrusted-value", message, { hint });
}

/** Whether the words before an argument say that it is the text of a program, as `sh -c` does. */
export function takesProgramNext(words: readonly string[]): boolean {
  const isOption = new RegExp(`^${programOption}$`).test(words.at(-1) ?? "");
  return isOption && words.some((word) => new RegExp(`^${interpreter}$`).test(word));
}

const codeVariables =
  /^(?:PATH|HOME|SHELL|LESSOPEN|ENV|BASH_ENV|ZDOTDIR|IFS|PS4|PROMPT_COMMAND|CDPATH|(?:LD|DYLD)_\w+|NODE_(?:OPTIONS|PATH)|PYTHON(?:PATH|HOME|STARTUP|INSPECT)|PERL(?:5OPT|5LIB|5DB|LIB)|RUBY(?:OPT|LIB)|(?:_JAVA|JAVA_TOOL|JDK_JAVA)_OPTIONS|GIT_\w+|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|\w*ASKPASS)$|^BASH_FUNC_/i;

/** Whether the value of a variable decides what programs run. */
export function isCodeVariable(name: string): boolean {
  return codeVariables.test(name);
}

/** A text for a shell that cannot be followed to its end, or has a value where none can be. */
export class ShellTextError extends Error {}

/** Where a value stands. */
export interface ShellPlace {
  /** The text of its command before it; characters in quotes are masked. */
  readonly command: string;
  /** Whether it stands in a command whose output is run. */
  readonly isRun: boolean;
  readonly isInSingleQuotes: boolean;
}

/** Stands for a value in a text for a shell. */
export function shellMark(name: string): string {
  return `\0${name}\0`;
}

/**
 * Writes a reference to a variable for every mark in a text for a shell, such as sh, bash or fish, so that the value stays one word. Should
 * a place be taken for another one, the value is still only a value: it never becomes a part of the text. Throws {@link ShellTextError}.
 */
export function placeVariables(
  text: string,
  variableFor: (mark: string, place: ShellPlace) => string,
): string {
  return text.includes("\0") ? new ShellTextWriter(text, variableFor).write() : text;
}

/** Code up to a closing character: of the whole text, of `$(…)` and of `(…)`; and quotes. */
interface Frame {
  readonly kind: "code" | '"' | "'" | "$'";
  readonly isRun: boolean;
  command: string;
}

const token = /\0[^\0]*\0|\\[^]|\$\(|\$\{|\$'|<<<?|[^]/gy;

/** Follows one text from its begin to its end; lives while it is written. */
class ShellTextWriter {
  readonly #text: string;
  readonly #variableFor: (mark: string, place: ShellPlace) => string;
  readonly #frames: Frame[] = [{ kind: "code", isRun: false, command: "" }];
  #hasDocument = false;

  constructor(text: string, variableFor: (mark: string, place: ShellPlace) => string) {
    this.#text = text;
    this.#variableFor = variableFor;
  }

  write(): string {
    let written = "";
    token.lastIndex = 0;
    for (let at = 0; at < this.#text.length;) {
      if (this.#hasDocument && !this.#text.includes("\0", at)) return written + this.#text.slice(at);
      token.lastIndex = at;
      const found = token.exec(this.#text)?.[0] ?? "";
      // In single quotes a backslash is a character like any other.
      const part = this.#top.kind === "'" && !found.startsWith("\0") ? found.charAt(0) : found;
      const skipped = this.#skipped(part, at);
      written +=
        skipped ??
        (part.startsWith("\0") && part.length > 1
          ? this.#place(part, this.#text.charAt(at - 1))
          : this.#follow(part));
      at += skipped?.length ?? part.length;
    }
    if (this.#frames.length > 1)
      throw new ShellTextError(`${this.#top.kind === "code" ? "(" : this.#top.kind} does not end`);
    return written;
  }

  get #top(): Frame {
    return this.#frames.at(-1) ?? { kind: "code", isRun: false, command: "" };
  }

  /** The command in which the top stands: quotes belong to that around them. */
  get #command(): Frame {
    return this.#frames.findLast(({ kind }) => kind === "code") ?? this.#top;
  }

  /** What has no place for a value: comments, `…` and ${…}. */
  #skipped(part: string, at: number): string | undefined {
    const { kind, command } = this.#top;
    const rest = (end: RegExp): string => end.exec(this.#text.slice(at))?.[0] ?? this.#text.slice(at);
    if (kind === "code" && part === "#" && /^$|\s$/.test(command))
      return rest(/^[^\n]*/).replaceAll("\0", " ");
    if (kind === "'" || kind === "$'" || (part !== "`" && part !== "${")) return undefined;
    const skipped = rest(part === "`" ? /^`(?:\\[^]|[^`\\])*`/ : /^\$\{(?:\\[^]|[^}\\])*\}/);
    if (skipped.includes("\0"))
      throw new ShellTextError(part === "`" ? "a value is inside `…`" : "a value is inside ${…}");
    this.#command.command += "_".repeat(skipped.length);
    return skipped;
  }

  #place(part: string, before: string): string {
    if (before === "$") throw new ShellTextError("a value follows $");
    const { kind } = this.#top;
    if (this.#hasDocument) throw new ShellTextError("a value is in or after a here-document");
    if (kind === "$'") throw new ShellTextError("a value is inside $'…'");
    const { command } = this.#command;
    const isRun = this.#frames.some((frame) => frame.isRun);
    const name = this.#variableFor(part.slice(1, -1), { command, isRun, isInSingleQuotes: kind === "'" });
    this.#command.command += "_";
    // Between quotes of its own; not every shell knows braces around a name.
    const quote = { code: "", '"': '"', "'": "'" }[kind];
    return `${quote}"$${name}"${quote}`;
  }

  #follow(part: string): string {
    const { kind } = this.#top;
    if (part === "\\\0" || part === "\0") throw new ShellTextError("a value follows a backslash");
    if (kind === "code") this.#followCode(part);
    else if (part === (kind === "$'" ? "'" : kind)) this.#frames.pop();
    else if (kind === '"' && part === "$(") this.#begin(part);
    else this.#command.command += "_";
    return part;
  }

  #followCode(part: string): void {
    const frame = this.#top;
    // The end of a pattern of `case` looks like that of the command.
    if (this.#frames.length > 1 && /(?:^|\s)case$/.test(frame.command) && /\s/.test(part))
      throw new ShellTextError("it has case inside $(…)");
    if (part === "'" || part === '"' || part === "$'")
      this.#frames.push({ kind: part, isRun: false, command: "" });
    else if (part === "$(" || part === "(") this.#begin(part);
    else if (part === ")") {
      if (this.#frames.length > 1) this.#frames.pop();
      this.#command.command += "_";
    } else if (/^[;&|\n]$/.test(part) && !/[<>]$/.test(frame.command)) frame.command = "";
    else {
      if (part === "<<") this.#hasDocument = true;
      frame.command += part;
    }
  }

  #begin(opening: "(" | "$("): void {
    const isRun = opening === "$(" && isProgramPlace(this.#command.command);
    this.#frames.push({ kind: "code", isRun, command: "" });
  }
}
