/** A text for a shell that cannot be followed to its end. */
export class ShellTextError extends Error {}

/** What surrounds a value: code of the shell and double quotes, or a text that the shell leaves as it is, such as one in single quotes. */
export type ShellPlace = "code" | "text";

/** Stands for a value in a text for a shell. */
export function shellMark(name: string): string {
  return `\0${name}\0`;
}

/**
 * Writes a reference to a variable for every mark in a text for a POSIX shell or bash, so that the value stays one word and
 * nothing in it is read as code, whatever the mark stands in: quotes, here-documents, commands inside. A here-document that
 * is taken as it is becomes one in which only the references are replaced. Should a place be taken for another one, the
 * value is still only a value: it never becomes a part of the text. Throws {@link ShellTextError}.
 */
export function placeVariables(
  text: string,
  variableFor: (name: string, place: ShellPlace) => string,
): string {
  if (!text.includes("\0")) return text;
  return new ShellText(text, variableFor).write();
}

interface HereDocument {
  readonly delimiter: string;
  readonly isQuoted: boolean;
  /** Which of the written pieces is the delimiter. */
  readonly at: number;
  /** Tabs before its lines do not count. */
  readonly strips: boolean;
}

/** How deep quotes and commands may stand in one another, and how long arithmetic may be. */
const deepest = 100;
const longestArithmetic = 1000;

/** Words after which a command begins. */
const opening = new Set(["then", "do", "else", "elif", "if", "while", "until", "!", "{", "time"]);

/** Follows one text from its begin to its end; lives while it is written. */
class ShellText {
  readonly #text: string;
  readonly #variableFor: (name: string, place: ShellPlace) => string;
  #at = 0;
  #depth = 0;
  readonly #pieces: string[] = [];

  constructor(text: string, variableFor: (name: string, place: ShellPlace) => string) {
    this.#text = text;
    this.#variableFor = variableFor;
  }

  write(): string {
    this.#commands("");
    return this.#pieces.join("");
  }

  /** Commands up to a closing character; with "" to the end. */
  #commands(end: ")" | "`" | ""): void {
    const documents: HereDocument[] = [];
    let parentheses = 0;
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
      if (character === end && (end === "`" || (parentheses === 0 && cases === 0))) {
        this.#copy(1);
        return;
      }
      if (character === "\n") {
        this.#copy(1);
        endWord(true);
        for (const document of documents.splice(0)) this.#hereDocument(document);
      } else if (character === "#" && word === "") this.#comment();
      else if (this.#sees("<<<")) this.#copy(3);
      else if (this.#sees("<<")) {
        documents.push(this.#readHereDocument());
        endWord(false);
      } else if (this.#sees("((") && word === "" && this.#isArithmetic(2)) this.#arithmetic(2);
      else if (/[\s;&|()<>]/.test(character)) {
        if (character === "(") parentheses += 1;
        if (character === ")" && parentheses > 0) parentheses -= 1;
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
    if (end !== "" || cases > 0) throw new ShellTextError("a command inside does not end");
    for (const document of documents) this.#hereDocument(document);
  }

  /** What means the same in and out of double quotes: escapes, expansions, marks; else one character. */
  #part(where: "word" | "quotes" | "document"): void {
    const mark = this.#mark();
    if (mark !== undefined) {
      const reference = `\${${this.#variableFor(mark, where === "document" ? "text" : "code")}}`;
      this.#pieces.push(where === "word" ? `"${reference}"` : reference);
    } else if (this.#sees("\\")) this.#escape();
    else this.#expansion(where);
  }

  #expansion(where: "word" | "quotes" | "document"): void {
    if (this.#depth === deepest) throw new ShellTextError("commands stand in one another too deeply");
    this.#depth += 1;
    if (this.#sees("$\0")) throw new ShellTextError("a template stands after $");
    else if (this.#sees("$((") && this.#isArithmetic(3)) this.#arithmetic(3);
    else if (this.#sees("$(")) {
      this.#copy(2);
      this.#commands(")");
    } else if (this.#sees("${")) this.#braces(where);
    else if (this.#sees("`")) {
      this.#copy(1);
      this.#commands("`");
    } else this.#copy(1);
    this.#depth -= 1;
  }

  #escape(): void {
    if (this.#sees("\\\0")) throw new ShellTextError("a template stands after a backslash");
    this.#copy(2);
  }

  #double(): void {
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
    this.#copy(opener);
    while (!this.#sees("'")) {
      this.#more("single quotes do not end");
      const mark = this.#mark();
      if (mark === undefined && opener === 2 && this.#sees("\\")) this.#escape();
      else if (mark === undefined) this.#copy(1);
      else this.#pieces.push(`'"\${${this.#variableFor(mark, "text")}}"${opens}`);
    }
    this.#copy(1);
  }

  /** `${NAME…}`: quotes in it are quotes only where it is not in quotes itself. */
  #braces(where: "word" | "quotes" | "document"): void {
    this.#copy(2);
    while (!this.#sees("}")) {
      this.#more("${ does not end");
      if (where === "word" && this.#sees("'")) this.#single(1);
      else if (this.#sees('"')) this.#double();
      else this.#part(where);
    }
    this.#copy(1);
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

  #arithmetic(opener: 2 | 3): void {
    const end = this.#endOfArithmetic(opener) ?? this.#text.length;
    if (this.#text.slice(this.#at, end).includes("\0"))
      throw new ShellTextError("a template stands in arithmetic");
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
    return { delimiter, isQuoted: delimiter !== word, at, strips: dash === "-" };
  }

  #hereDocument(document: HereDocument): void {
    const { delimiter, isQuoted, strips } = document;
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
    if (!body.includes("\0")) this.#copy(next - from);
    else if (isQuoted) this.#asItIs(document, body, next);
    else {
      while (this.#at < end) this.#part("document");
      this.#copy(Math.max(0, next - this.#at));
    }
  }

  /** Writes a here-document that the shell takes as it is as one in which it replaces the marks, and nothing else. */
  #asItIs({ delimiter, at }: HereDocument, body: string, next: number): void {
    if (!/^\w+$/.test(delimiter)) throw new ShellTextError(`a here-document ends with ${delimiter}`);
    this.#pieces[at] = delimiter;
    const end = this.#at + body.length;
    while (this.#at < end) {
      const mark = this.#mark();
      if (mark !== undefined) this.#pieces.push(`\${${this.#variableFor(mark, "text")}}`);
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
