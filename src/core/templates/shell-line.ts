import { McpvalsError } from "../errors/error.ts";
import {
  placeVariables,
  type ShellCommand,
  shellMark,
  type ShellPlace,
  type ShellReader,
  ShellTextError,
} from "./shell-text.ts";

/** Shells that read `"$NAME"` as the value of a variable, whatever it holds. */
const shells = /^(?:ba|da|a|z|k|mk|fi|ya)?sh$/;

/** Whether a program, by its path, is a shell for which values can be placed in a text. */
export function isShell(program: string): boolean {
  return shells.test(nameOf(program));
}

/** The program, as it is named, that reads a script; undefined when the script leaves it to the shell of the task. */
export function scriptProgram(script: string): string | undefined {
  const [, first, rest = ""] = /^\s*#![ \t]*(\S+)[ \t]*(.*)/.exec(script) ?? [];
  if (first === undefined || nameOf(first) !== "env") return first;
  return rest.split(/\s+/).find((word) => !/^-|=/.test(word)) ?? first;
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
export function shownShellText(text: string, env: Readonly<Record<string, unknown>>): string {
  return text.replaceAll(/\$\{?(MCPVALS_VALUE_\d+)\}?/g, (written, name: string) => {
    const value = env[name];
    return typeof value === "string" ? value : written;
  });
}

/**
 * Makes a text for a shell of texts that the author wrote and values from outside. Each value becomes a variable of the
 * process, so that the shell never reads it as a part of the text. Throws McpvalsError `task/untrusted-value` where even the
 * value of a variable is run or computed, and `task/unfit-value` for a value that a program could read as an option.
 */
export function placeInShell(parts: readonly (string | ShellValue)[]): ShellText {
  const values = parts.filter((part) => typeof part !== "string");
  let count = 0;
  const marked = parts.map((part) => (typeof part === "string" ? part : shellMark(String((count += 1)))));
  const rules = new ShellRules(values);
  const text = placed(marked.join(""), values, rules);
  rules.finish();
  const known = values.map(({ value = "" }, index) => [`${variablePrefix}${index + 1}`, value] as const);
  return { text, variables: Object.fromEntries(known) };
}

function placed(text: string, [first]: readonly ShellValue[], rules: ShellRules): string {
  try {
    return placeVariables(text, rules);
  } catch (error) {
    if (!(error instanceof ShellTextError) || first === undefined) throw error;
    throw refused(first.expression, `in a text that cannot be followed: ${error.message}`);
  }
}

/** Decides where values from outside are refused, while one text is read. */
class ShellRules implements ShellReader {
  readonly #values: readonly ShellValue[];
  /** The value that was placed last, and those of each command. */
  #last: string | undefined;
  readonly #placed = new Map<Readonly<ShellCommand>, ShellValue[]>();
  #computes = false;
  /** Whether some command runs what another one writes. */
  #runsItsInput = false;

  constructor(values: readonly ShellValue[]) {
    this.#values = values;
  }

  variableFor(mark: string, { inBraces, command }: ShellPlace): string {
    const known = this.#values[Number(mark) - 1];
    if (known === undefined) throw new ShellTextError("it has a character that no shell takes");
    const { expression, value } = known;
    const refusal = inBraces ? "inside ${…}" : refusalIn(command, this.#runsItsInput);
    if (refusal !== undefined) throw refused(expression, refusal);
    if (value?.startsWith("-") === true && couldBeOption(command)) throw option(expression, command);
    this.#placed.set(command, [...(this.#placed.get(command) ?? []), known]);
    this.#last = expression;
    return `${variablePrefix}${mark}`;
  }

  commandEnds(command: Readonly<ShellCommand>): void {
    this.#checkNumbers(command);
    const { words, afterPipe } = command;
    if (!afterPipe || !readsItsInput(ownWords(words))) return;
    this.#runsItsInput = true;
    if (this.#last !== undefined) throw refused(this.#last, "before a program that runs what it reads");
  }

  computes(): void {
    this.#computes = true;
  }

  /** Some shells compute what `test` compares as numbers. */
  #checkNumbers(command: Readonly<ShellCommand>): void {
    const [first = "", ...others] = ownWords(command.words);
    if (first !== "test" && first !== "[") return;
    const comparison = others.find((word) => /^-(?:eq|ne|lt|le|gt|ge)$/.test(word));
    const wrong = this.#placed
      .get(command)
      ?.find(({ value }) => value !== undefined && !/^\s*-?\d+\s*$/.test(value));
    if (comparison === undefined || wrong === undefined) return;
    const message = `${wrong.expression} gives a text, and ${comparison} compares numbers`;
    throw new McpvalsError("task/unfit-value", message, { hint: "Compare texts with = and !=." });
  }

  /** To be called at the end. */
  finish(): void {
    if (!this.#computes || this.#last === undefined) return;
    throw refused(this.#last, "in a text that computes with variables, which runs what is in them");
  }
}

const test = "inside [[ … ]], which computes what it compares";

/** Why no value can stand here; goes on after "which cannot be used". */
function refusalIn(command: Readonly<ShellCommand>, runsItsInput: boolean): string | undefined {
  const refusal = ownRefusal(command, runsItsInput);
  // What a command inside gives stands where that stands.
  if (refusal !== undefined || command.outer === undefined) return refusal;
  return refusalIn(command.outer, runsItsInput);
}

function ownRefusal({ words, word, role, inTest }: ShellCommand, runsItsInput: boolean): string | undefined {
  const own = ownWords(words);
  if (role === "input")
    return runsItsInput || readsItsInput(own) ? "in the input of a program that runs it" : undefined;
  if (inTest) return test;
  if (role === "file") return "where a file is named";
  const assigned = assignment.exec(word ?? "")?.[1];
  if (assigned !== undefined && isCodeVariable(assigned))
    return `in the variable ${assigned}, which decides what is run`;
  if (!own.every(isWrapping)) return argumentRefusal(own, word, assigned !== undefined);
  return assigned === undefined ? "where a program is named" : undefined;
}

/** Whether the word that a value begins could be an option of the program. */
function couldBeOption({ words, word, role }: ShellCommand): boolean {
  const [first = "", ...others] = ownWords(words);
  if ((word ?? "") !== "" || role !== "word" || first === "" || others.includes("--")) return false;
  if (/^--arg(?:json)?$/.test(others.at(-2) ?? "")) return false;
  const name = nameOf(first);
  if (name === "printf") return others.length === 0;
  return !takesTexts.has(name) && (!interpreters.test(name) || /sed$|q$/.test(name));
}

function refused(expression: string, where: string): McpvalsError {
  return new McpvalsError(
    "task/untrusted-value",
    `${expression} is a value from outside, which cannot be used ${where}`,
    {
      hint: `Pass it as a variable: env: {VALUE: "${expression}"} in the step, and "$VALUE" in its text. To insert it as it is, write {… | raw}.`,
    },
  );
}

function option(expression: string, { words }: ShellCommand): McpvalsError {
  const program = ownWords(words)[0] ?? "the program";
  const message = `${expression} gives a text that begins with "-", and ${program} could read it as an option`;
  return new McpvalsError("task/unfit-value", message, {
    hint: `Write -- before it where ${program} knows that, or pass the value on stdin.`,
  });
}

const assignment = /^([A-Za-z_]\w*)\+?=/;
/** Words after which the name of a program stands. */
const keywords = new Set(["if", "then", "else", "elif", "do", "while", "until", "!", "time", "coproc"]);

/** The words of a command without keywords and variables before it. */
function ownWords(words: readonly string[]): readonly string[] {
  const after = words.slice(words.lastIndexOf("{") + 1);
  const start = after.findIndex((word) => !keywords.has(word) && !assignment.test(word));
  return start === -1 ? [] : after.slice(start);
}

/** Programs that run the program that their arguments name. */
const wrappers = new Set(
  "builtin chroot command doas env exec nice nohup npx nsenter setsid stdbuf sudo timeout unshare xargs".split(
    " ",
  ),
);
/** Programs that do so after one of some words. */
const carriers = new Set("docker find kubectl nerdctl npm oc podman".split(" "));
const carried = new Set(["--", "exec", "run", "-exec", "-execdir", "-ok", "-okdir"]);

/** Whether a word belongs to what stands before the name of a program, such as `timeout 5`. */
function isWrapping(word: string, index: number): boolean {
  return wrappers.has(nameOf(word)) || (index > 0 && /^-|=|^\d/.test(word));
}

const namesVariables = new Set(["export", "local", "readonly"]);
/** Commands whose arguments are texts, also those that begin with "-". */
const takesTexts = new Set([
  "echo",
  "test",
  "[",
  ":",
  "true",
  "false",
  "case",
  "for",
  "return",
  ...namesVariables,
]);

/**
 * Why a value cannot be in an argument after these words, of which the first names a program; goes on after "which cannot be used". The
 * argument may have begun with `word`.
 */
export function argumentRefusal(
  own: readonly string[],
  word: string | undefined,
  isAssigned = false,
): string | undefined {
  const first = nameOf(own[0] ?? "");
  const isVariable = namesVariables.has(first) && !isAssigned;
  if (isVariable || (["printf", "test", "["].includes(first) && own.at(-1) === "-v"))
    return `where ${first} names a variable`;
  for (const index of programPlaces(own, first)) {
    const name = nameOf(own[index] ?? "");
    if (readers.has(name)) return `in an argument of ${name}, which is run`;
    if (interpreters.test(name) && !hasProgram(name, own.slice(index + 1), word))
      return `where ${name} gets its program`;
  }
  return undefined;
}

/** Where in a command programs may be named. */
function programPlaces(own: readonly string[], first: string): readonly number[] {
  const all = [...own.keys()];
  if (wrappers.has(first)) return all;
  const mark = carriers.has(first) ? own.findIndex((word) => carried.has(word)) : -1;
  return mark === -1 ? [0] : [0, ...all.slice(mark + 1)];
}

/** Those whose arguments are a program, or name a variable in which one can hide. */
const readers: ReadonlySet<string> = new Set(
  (
    ". alias at batch dc declare duckdb ed emacs eval ex expect getopts let mapfile mariadb mongosh mysql parallel psql " +
    "read readarray source sqlite3 ssh tclsh trap typeset unset vi vim watch"
  ).split(" "),
);

/** Those that an option, or else their first argument, tells what to run. */
export const interpreters =
  /^(?:(?:ba|da|a|z|k|mk|fi|ya|c|tc|pw)?sh|busybox|powershell|su|runuser|script|flock|python[\d.]*|pypy[\d.]*|node|nodejs|deno|bun|tsx|perl[\d.]*|ruby|php|lua[\d.]*|luajit|rscript|julia|osascript|g?sed|[gmn]?awk|jq|yq)$/;

/** The name of a program, without its folders. */
function nameOf(program: string): string {
  return (program.split(/[/\\]/).at(-1) ?? "").toLowerCase().replace(/\.exe$/, "");
}

const programOption = /^-[a-z]*[ce]$|^-p$|^--?(?:eval|print|command|encodedcommand|exec|expression)$|^eval$/i;
const optionsWithOne = /^[-+]o$|^-[OWXIMFvL]$|^--(?:import|require|rcfile|init-file|indent|tab)$/;
const optionsWithTwo = /^--(?:arg|argjson|slurpfile|rawfile)$/;

/**
 * Whether an interpreter knows what to run after these arguments, or the next one is only data for it; that may have begun
 * with `word`.
 */
function hasProgram(name: string, args: readonly string[], word: string | undefined): boolean {
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (programOption.test(arg) || (name === "php" && arg === "-r")) {
      const next = args[at + 1];
      if (next === undefined) return false;
      if (!next.startsWith("-")) return true;
    } else if (optionsWithTwo.test(arg)) {
      if (args.length === at + 2) return true;
      at += 2;
    } else if (optionsWithOne.test(arg) || (arg === "-r" && /^(?:node|tsx|bun|ruby)/.test(name))) {
      if (args.length === at + 1) return arg === "-v" && /^\w+=/.test(word ?? "");
      at += 1;
    } else if (!/^[-+]/.test(arg)) return true;
  }
  return false;
}

/** Whether a command runs what it reads on stdin. */
function readsItsInput([first = "", ...args]: readonly string[]): boolean {
  const name = nameOf(first);
  if (name === "xargs") return args.some((arg) => isShellLike(nameOf(arg)));
  // What these run is found behind them.
  if (/^(?:sudo|doas|env|exec|command|nohup|nice|timeout|docker|podman|kubectl|oc|npx)$/.test(name))
    return args.some(
      (_, index) => isShellLike(nameOf(args[index] ?? "")) && readsItsInput(args.slice(index)),
    );
  if (readers.has(name)) return !/^(?:read|mapfile|readarray|getopts)$/.test(name);
  if (!isShellLike(name)) return false;
  return args.includes("-s") || !args.some((arg) => !arg.startsWith("-") || programOption.test(arg));
}

function isShellLike(name: string): boolean {
  return interpreters.test(name) && !/^(?:g?sed|[gmn]?awk|jq|yq|flock|script)$/.test(name);
}

const codeVariables =
  /^(?:PATH|HOME|SHELL|LESSOPEN|ENV|BASH_ENV|ZDOTDIR|IFS|PS4|PROMPT_COMMAND|CDPATH|(?:LD|DYLD)_\w+|NODE_(?:OPTIONS|PATH)|PYTHON(?:PATH|HOME|STARTUP|INSPECT)|PERL(?:5OPT|5LIB|5DB|LIB)|RUBY(?:OPT|LIB)|(?:_JAVA|JAVA_TOOL|JDK_JAVA)_OPTIONS|GIT_\w+|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|\w*ASKPASS)$|^BASH_FUNC_/i;

/** Whether the value of a variable decides what programs run. */
export function isCodeVariable(name: string): boolean {
  return codeVariables.test(name);
}
