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
  return new ShellText(text, reader).write();
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
class ShellText {
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
