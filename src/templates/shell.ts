import { McpvalsError } from "../base/error.ts";

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
  const hint = `Pass it as a variable: env: {VALUE: "${expression}"} in the step, and "$VALUE" in its text. To insert it as it is, write {… | raw}.`;
  return refusedValue(expression, where, hint);
}

/** The error for a value from outside where none can be; `where` goes on after "which cannot be used". */
export function refusedValue(expression: string, where: string, hint: string): McpvalsError {
  const message = `${expression} is a value from outside, which cannot be used ${where}`;
  return new McpvalsError("task/untrusted-value", message, { hint });
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
    // It may be a shell, and this its option for a program.
    if (/[\0$]/.test(own[index] ?? "") && /^-[a-z]*c$/i.test(own.at(-1) ?? ""))
      return `after ${own.at(-1)} of a program whose name is in a variable`;
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

/** A text for a shell that cannot be followed to its end. */
export class ShellTextError extends Error {}

/** Where a value stands. */
export interface ShellPlace {
  /** What surrounds it: code of the shell and double quotes, or a text that the shell leaves as it is, such as one in single quotes. */
  readonly kind: "code" | "text";
  /** Whether it stands in `${…}`. */
  readonly inBraces: boolean;
  /** The command that gets it, as far as that has been read. */
  readonly command: Readonly<ShellCommand>;
}

/** One command of a text. */
export interface ShellCommand {
  /** Its words without their quotes, values as \0; what follows `<` and `>` is left out. */
  words: string[];
  /** The word that has begun. */
  word: string | undefined;
  /** Whether that names a file, after `<` or `>`, or is input, after `<<<` and in a here-document. */
  role: "word" | "file" | "input";
  /** Whether it reads what another command writes. */
  afterPipe: boolean;
  /** Inside `[[ … ]]`. */
  inTest: boolean;
  /** The command of which a word is made of what this one writes, as in `$(…)`. */
  readonly outer?: ShellCommand | undefined;
}

/** Callbacks while a text is written. */
export interface ShellReader {
  /** Gives the name of the variable for a mark. What it throws, `placeVariables` throws. */
  variableFor(name: string, place: ShellPlace): string;
  /** A command has been read. */
  commandEnds?(command: Readonly<ShellCommand>): void;
  /** The values of variables are computed: in arithmetic, or in `[[ … -eq … ]]`. */
  computes?(): void;
}

/** Stands for a value in a text for a shell. */
export function shellMark(name: string): string {
  return `\0${name}\0`;
}

/**
 * Writes a reference to a variable for every mark in a text for a shell, such as sh, bash or fish, so that the value stays one word and
 * nothing in it is read as code, whatever the mark stands in: quotes, here-documents, commands inside. A here-document that
 * is taken as it is becomes one in which only the references are replaced. Should a place be taken for another one, the
 * value is still only a value: it never becomes a part of the text. Throws {@link ShellTextError}.
 */
export function placeVariables(text: string, reader: ShellReader): string {
  if (!text.includes("\0")) return text;
  return new ShellTextWriter(text, reader).write();
}

interface HereDocument {
  readonly delimiter: string;
  readonly isQuoted: boolean;
  /** Which of the written pieces is the delimiter. */
  readonly at: number;
  /** Tabs before its lines do not count. */
  readonly strips: boolean;
  /** Gets it on stdin. */
  readonly command: ShellCommand;
}

function newCommand(parts: Partial<ShellCommand> = {}): ShellCommand {
  return { words: [], word: undefined, role: "word", afterPipe: false, inTest: false, ...parts };
}

/** How deep quotes and commands may stand in one another, and how long arithmetic may be. */
const deepest = 100;
const longestArithmetic = 1000;

/** Words after which a command begins. */
const opening = new Set(["then", "do", "else", "elif", "if", "while", "until", "!", "{", "time"]);

/** Follows one text from its begin to its end; lives while it is written. */
class ShellTextWriter {
  readonly #text: string;
  readonly #reader: ShellReader;
  #at = 0;
  #depth = 0;
  #braces = 0;
  #command = newCommand();
  readonly #pieces: string[] = [];

  constructor(text: string, reader: ShellReader) {
    this.#text = text;
    this.#reader = reader;
  }

  write(): string {
    this.#commands("");
    return this.#pieces.join("");
  }

  /** Commands up to a closing character; with "" to the end. */
  #commands(end: ")" | "`" | ""): void {
    const outer = this.#command;
    this.#command = newCommand(end === "" ? {} : { inTest: outer.inTest, outer });
    const documents: HereDocument[] = [];
    /** What is begun by each parenthesis that is open: the command around it, or undefined when none goes on after it. */
    const parentheses: (ShellCommand | undefined)[] = [];
    let cases = 0;
    let word = "";
    let begins = true;
    const endWord = (beginsNext: boolean): void => {
      if (begins && word === "case") cases += 1;
      if (begins && word === "esac") cases -= 1;
      begins = beginsNext || (begins && (word === "" || opening.has(word)));
      word = "";
    };
    while (this.#at < this.#text.length) {
      const character = this.#text.charAt(this.#at);
      if (character === ")") endWord(true);
      if (character === end && (end === "`" || (parentheses.length === 0 && cases === 0))) {
        this.#copy(1);
        this.#endCommand();
        this.#command = outer;
        return;
      }
      if (character === "\n") {
        this.#copy(1);
        endWord(true);
        this.#endCommand();
        for (const document of documents.splice(0)) this.#hereDocument(document);
      } else if (character === "#" && word === "") this.#comment();
      else if (this.#sees("<<<")) {
        this.#copy(3);
        this.#redirect("input");
      } else if (this.#sees("<<")) {
        this.#redirect("word");
        documents.push(this.#readHereDocument());
        endWord(false);
      } else if (this.#sees("((") && word === "" && this.#isArithmetic(2)) this.#arithmetic(2);
      else if (/[\s;&|()<>]/.test(character)) {
        this.#separate(character, parentheses);
        this.#copy(1);
        endWord(/[;&|()]/.test(character));
      } else if (character === "'") {
        this.#single(1);
        word += "'";
      } else if (this.#sees("$'")) {
        this.#single(2);
        word += "'";
      } else if (character === '"') {
        this.#double();
        word += '"';
      } else {
        word += character;
        this.#part("word");
      }
    }
    endWord(true);
    if (end !== "" || cases > 0) throw new ShellTextError("a command inside does not end");
    this.#endCommand();
    for (const document of documents) this.#hereDocument(document);
    this.#command = outer;
  }

  /** A character that ends a word, or a command. */
  #separate(character: string, parentheses: (ShellCommand | undefined)[]): void {
    const before = this.#text.charAt(this.#at - 1);
    const after = this.#text.charAt(this.#at + 1);
    const isRedirection = /[<>]/.test(before) || (character === "&" && after === ">");
    switch (character) {
      case "<":
      case ">":
        if (after !== "(") this.#redirect("file");
        break;
      case "(":
        this.#beginParenthesis(before, parentheses);
        break;
      case ")":
        this.#endCommand();
        this.#command = parentheses.pop() ?? this.#command;
        break;
      case "&":
      case "|": {
        if (isRedirection) break;
        const isPipe = character === "|" && before !== "|" && after !== "|";
        if (character === "&" && before === "|") break;
        this.#endCommand();
        this.#command.afterPipe = isPipe;
        break;
      }
      case ";":
        this.#endCommand();
        break;
      default:
        this.#endWord();
    }
  }

  /** Of a subshell, a function, a list, or a command whose name the word around it has. */
  #beginParenthesis(before: string, parentheses: (ShellCommand | undefined)[]): void {
    const outer = this.#command;
    const { words, word, inTest } = outer;
    const isCommand = !/[<>]/.test(before) && words.length === 0 && word?.endsWith("=") !== true;
    parentheses.push(isCommand ? undefined : outer);
    if (!isCommand) this.#add("\0");
    // The words of a list are texts.
    this.#command = newCommand({
      inTest,
      words: word?.endsWith("=") === true ? [":"] : [],
      outer: isCommand ? outer.outer : outer,
    });
  }

  #redirect(role: ShellCommand["role"]): void {
    const command = this.#command;
    // The number of a stream.
    if (/^\d+$/.test(command.word ?? "")) command.word = undefined;
    this.#endWord();
    command.role = role;
  }

  #add(characters: string): void {
    this.#command.word = (this.#command.word ?? "") + characters;
  }

  #endWord(): void {
    const command = this.#command;
    const { word, role } = command;
    if (word === undefined) return;
    if (role === "word") {
      if (word === "[[") command.inTest = true;
      if (word === "]]") command.inTest = false;
      if (command.inTest && /^-(?:eq|ne|lt|le|gt|ge|v|R)$/.test(word)) this.#reader.computes?.();
      command.words.push(word);
    }
    command.role = "word";
    command.word = undefined;
  }

  #endCommand(): void {
    this.#endWord();
    this.#reader.commandEnds?.(this.#command);
    const { inTest, outer } = this.#command;
    this.#command = newCommand({ inTest, outer });
  }

  #variable(mark: string, kind: ShellPlace["kind"]): string {
    const place = { kind, inBraces: this.#braces > 0, command: this.#command };
    const name = this.#reader.variableFor(mark, place);
    this.#add("\0");
    return name;
  }

  /** What means the same in and out of double quotes: escapes, expansions, marks; else one character. */
  #part(where: "word" | "quotes" | "document"): void {
    const mark = this.#mark();
    if (mark !== undefined) {
      const name = this.#variable(mark, where === "document" ? "text" : "code");
      // Not every shell has braces; where they are needed it has.
      const isBare = where === "document" || (where === "quotes" && this.#braces > 0);
      const quote = where === "quotes" ? '"' : "";
      this.#pieces.push(isBare ? `\${${name}}` : `${quote}"$${name}"${quote}`);
    } else if (this.#sees("\\")) this.#escape();
    else this.#expansion(where);
  }

  #expansion(where: "word" | "quotes" | "document"): void {
    if (this.#depth === deepest) throw new ShellTextError("commands stand in one another too deeply");
    this.#depth += 1;
    if (this.#sees("$\0")) throw new ShellTextError("a template follows $");
    if (/^(?:\$[([{]|`)/.test(this.#text.slice(this.#at, this.#at + 2))) this.#add("\0");
    if (this.#sees("$[")) this.#oldArithmetic();
    else if (this.#sees("$((") && this.#isArithmetic(3)) this.#arithmetic(3);
    else if (this.#sees("$(")) {
      this.#copy(2);
      this.#commands(")");
    } else if (this.#sees("${")) this.#insideBraces(where);
    else if (this.#sees("`")) {
      this.#copy(1);
      this.#commands("`");
    } else {
      if (where !== "document") this.#add(this.#text.charAt(this.#at));
      this.#copy(1);
    }
    this.#depth -= 1;
  }

  #escape(): void {
    if (this.#sees("\\\0")) throw new ShellTextError("a template follows a backslash");
    const next = this.#text.charAt(this.#at + 1);
    if (next !== "\n") this.#add(next);
    this.#copy(2);
  }

  #double(): void {
    this.#add("");
    this.#copy(1);
    while (!this.#sees('"')) {
      this.#more("double quotes do not end");
      this.#part("quotes");
    }
    this.#copy(1);
  }

  /** From `'` or `$'`; marks in it stand between quotes. */
  #single(opener: 1 | 2): void {
    const opens = this.#text.slice(this.#at, this.#at + opener);
    this.#add("");
    this.#copy(opener);
    while (!this.#sees("'")) {
      this.#more("single quotes do not end");
      const mark = this.#mark();
      if (mark === undefined && opener === 2 && this.#sees("\\")) this.#escape();
      else if (mark === undefined) {
        this.#add(this.#text.charAt(this.#at));
        this.#copy(1);
      } else this.#pieces.push(`'"$${this.#variable(mark, "text")}"${opens}`);
    }
    this.#copy(1);
  }

  /** `${NAME…}`: quotes in it are quotes only where it is not in quotes itself. */
  #insideBraces(where: "word" | "quotes" | "document"): void {
    this.#braces += 1;
    this.#copy(2);
    while (!this.#sees("}")) {
      this.#more("${ does not end");
      if (where === "word" && this.#sees("'")) this.#single(1);
      else if (this.#sees('"')) this.#double();
      else this.#part(where);
    }
    this.#copy(1);
    this.#braces -= 1;
  }

  /** Whether what begins here with so many characters, two of them `((`, ends with `))`. */
  #isArithmetic(opener: 2 | 3): boolean {
    return this.#endOfArithmetic(opener) !== undefined;
  }

  #endOfArithmetic(opener: 2 | 3): number | undefined {
    let depth = 0;
    const last = Math.min(this.#text.length, this.#at + longestArithmetic);
    for (let at = this.#at + opener; at < last; at += 1) {
      const character = this.#text.charAt(at);
      if (character === "(") depth += 1;
      else if (character === ")" && depth > 0) depth -= 1;
      else if (character === ")") return this.#text.charAt(at + 1) === ")" ? at + 2 : undefined;
    }
    return undefined;
  }

  /** `$[…]`, which bash still knows. */
  #oldArithmetic(): void {
    const end = this.#text.indexOf("]", this.#at);
    this.#copyArithmetic(end === -1 ? this.#text.length : end + 1);
  }

  #arithmetic(opener: 2 | 3): void {
    this.#copyArithmetic(this.#endOfArithmetic(opener) ?? this.#text.length);
  }

  #copyArithmetic(end: number): void {
    if (/[A-Za-z_$]/.test(this.#text.slice(this.#at + 1, end))) this.#reader.computes?.();
    if (this.#text.slice(this.#at, end).includes("\0"))
      throw new ShellTextError("a template is inside arithmetic");
    this.#copy(end - this.#at);
  }

  /** A value in a comment is of no use, and must not end it. */
  #comment(): void {
    while (this.#at < this.#text.length && !this.#sees("\n")) {
      if (this.#mark() === undefined) this.#copy(1);
    }
  }

  /** `<<WORD` or `<<-WORD`: its lines come after the next line end. */
  #readHereDocument(): HereDocument {
    const [operator = "", dash = "", word = ""] =
      /^<<(-?)[ \t]*((?:'[^']*'|"[^"]*"|\\.|[^\s;&|()<>'"\\])+)/s.exec(this.#text.slice(this.#at)) ?? [];
    if (operator === "" || word.includes("\0"))
      throw new ShellTextError("a here-document has no end that is known");
    this.#copy(operator.length - word.length);
    const at = this.#pieces.length;
    this.#copy(word.length);
    const delimiter = word.replaceAll(/'([^']*)'|"([^"]*)"|\\(.)/gs, "$1$2$3");
    return { delimiter, isQuoted: delimiter !== word, at, strips: dash === "-", command: this.#command };
  }

  #hereDocument(document: HereDocument): void {
    const { delimiter, isQuoted, strips, command } = document;
    const from = this.#at;
    let end = from;
    let next = from;
    for (let found = false; !found;) {
      end = next;
      if (end >= this.#text.length) break;
      const lineEnd = this.#text.indexOf("\n", end);
      const line = this.#text.slice(end, lineEnd === -1 ? undefined : lineEnd);
      next = lineEnd === -1 ? this.#text.length : lineEnd + 1;
      found = (strips ? line.replace(/^\t+/, "") : line) === delimiter;
    }
    const body = this.#text.slice(from, end);
    const outer = this.#command;
    this.#command = newCommand({ ...command, role: "input" });
    if (!body.includes("\0")) this.#copy(next - from);
    else if (isQuoted) this.#asItIs(document, body, next);
    else {
      while (this.#at < end) this.#part("document");
      this.#copy(Math.max(0, next - this.#at));
    }
    this.#command = outer;
  }

  /** Writes a here-document that the shell takes as it is as one in which it replaces the marks, and nothing else. */
  #asItIs({ delimiter, at }: HereDocument, body: string, next: number): void {
    if (!/^\w+$/.test(delimiter)) throw new ShellTextError(`a here-document ends with ${delimiter}`);
    this.#pieces[at] = delimiter;
    const end = this.#at + body.length;
    while (this.#at < end) {
      const mark = this.#mark();
      if (mark !== undefined) this.#pieces.push(`\${${this.#variable(mark, "text")}}`);
      else {
        if (/[\\$`]/.test(this.#text.charAt(this.#at))) this.#pieces.push("\\");
        this.#copy(1);
      }
    }
    this.#copy(next - end);
  }

  /** The name of the mark that begins here, which is left behind. */
  #mark(): string | undefined {
    if (!this.#sees("\0")) return undefined;
    const end = this.#text.indexOf("\0", this.#at + 1);
    if (end === -1) throw new ShellTextError("it has a character that no shell takes");
    const name = this.#text.slice(this.#at + 1, end);
    this.#at = end + 1;
    return name;
  }

  #sees(text: string): boolean {
    return this.#text.startsWith(text, this.#at);
  }

  #more(problem: string): void {
    if (this.#at >= this.#text.length) throw new ShellTextError(problem);
  }

  #copy(length: number): void {
    this.#pieces.push(this.#text.slice(this.#at, this.#at + length));
    this.#at += length;
  }
}
