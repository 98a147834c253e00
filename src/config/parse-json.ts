import { maxDepth } from "../core/formats/interpolate.ts";
import type { Json } from "../core/formats/model.ts";
import { type SyntaxProblem, SyntaxProblems } from "./syntax-error.ts";

/** Where a value stands: the offset of a scalar, or of a container with those of its members. */
export type JsonPosition = number | JsonObjectPosition | JsonArrayPosition;

export interface JsonObjectPosition {
  readonly start: number;
  readonly members: ReadonlyMap<string, { readonly key: number; readonly value: JsonPosition }>;
}

export interface JsonArrayPosition {
  readonly start: number;
  readonly items: readonly JsonPosition[];
}

export interface ParsedJson {
  readonly value: Json;
  readonly position: JsonPosition;
}

/**
 * Parses strict JSON and remembers where everything stands. Unlike `JSON.parse` it refuses keys that are there twice,
 * and says in a reader's words what is wrong. Throws {@link SyntaxProblems}.
 */
export function parseJson(text: string): ParsedJson {
  const parser = new JsonParser(text);
  const parsed = parser.document();
  if (parser.duplicates.length > 0) throw new SyntaxProblems(parser.duplicates);
  return parsed;
}

const blank = /[ \t\n\r]*/y;
const plainText = /[^"\\\u0000-\u001f]*/y;
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const word = /[^\s,:{}[\]"]+/y;
const yamlHint = "JSON has no comments. Remove it, or name the file .yaml.";

class JsonParser {
  readonly duplicates: SyntaxProblem[] = [];
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): ParsedJson {
    this.#skipBlank();
    if (this.#at === this.#text.length) this.#fail("the file is empty");
    const parsed = this.#value();
    this.#skipBlank();
    if (this.#at < this.#text.length) this.#fail("something follows the end of the document");
    return parsed;
  }

  #value(): ParsedJson {
    const start = this.#at;
    switch (this.#text[start]) {
      case "{":
        return this.#nested(() => this.#object(start));
      case "[":
        return this.#nested(() => this.#array(start));
      case '"':
        return { value: this.#string(), position: start };
      default:
        return { value: this.#scalar(), position: start };
    }
  }

  #nested(parse: () => ParsedJson): ParsedJson {
    this.#depth += 1;
    if (this.#depth > maxDepth) this.#fail(`nested deeper than ${maxDepth} levels`);
    const parsed = parse();
    this.#depth -= 1;
    return parsed;
  }

  #object(start: number): ParsedJson {
    const value: Record<string, Json> = {};
    const members = new Map<string, { key: number; value: JsonPosition }>();
    this.#at += 1;
    this.#skipBlank();
    while (this.#text[this.#at] !== "}") {
      const keyStart = this.#at;
      const key = this.#key();
      const member = this.#value();
      const earlier = members.get(key);
      if (earlier === undefined) members.set(key, { key: keyStart, value: member.position });
      else this.#duplicate(key, keyStart);
      setMember(value, key, member.value);
      this.#separator("}", start);
    }
    this.#at += 1;
    return { value, position: { start, members } };
  }

  #array(start: number): ParsedJson {
    const value: Json[] = [];
    const items: JsonPosition[] = [];
    this.#at += 1;
    this.#skipBlank();
    while (this.#text[this.#at] !== "]") {
      const item = this.#value();
      value.push(item.value);
      items.push(item.position);
      this.#separator("]", start);
    }
    this.#at += 1;
    return { value, position: { start, items } };
  }

  #key(): string {
    const first = this.#text[this.#at];
    if (first === undefined) this.#fail("the file ends inside an object");
    if (first !== '"') this.#fail(first === "," ? "a comma without a value" : "keys need double quotes");
    const key = this.#string();
    this.#skipBlank();
    if (this.#text[this.#at] !== ":") this.#fail('expected ":" after the key');
    this.#at += 1;
    this.#skipBlank();
    return key;
  }

  /** Steps over the comma between two values; leaves the closing bracket for the caller. */
  #separator(close: "}" | "]", start: number): void {
    this.#skipBlank();
    const next = this.#text[this.#at];
    if (next === close) return;
    const kind = close === "}" ? "object" : "list";
    if (next === undefined) this.#fail(`the file ends, but this ${kind} is not closed with "${close}"`, start);
    if (next !== ",") this.#fail(`expected "," or "${close}"`);
    const comma = this.#at;
    this.#at += 1;
    this.#skipBlank();
    if (this.#text[this.#at] === close) this.#fail(`a comma before the closing "${close}"`, comma);
  }

  #string(): string {
    const start = this.#at;
    this.#at += 1;
    for (;;) {
      this.#match(plainText);
      const next = this.#text[this.#at];
      if (next === '"') break;
      if (next === "\\") this.#escape();
      else this.#fail(next === undefined ? "the file ends inside a string" : controlCharacter(next));
    }
    this.#at += 1;
    const raw = this.#text.slice(start, this.#at);
    return raw.includes("\\") ? (JSON.parse(raw) as string) : raw.slice(1, -1);
  }

  #escape(): void {
    const escaped = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
    const found = this.#match(escaped);
    if (found === "") this.#fail("a backslash in a string must begin an escape that JSON has, such as \\n or \\\\");
  }

  #scalar(): Json {
    const start = this.#at;
    const text = this.#match(word);
    if (text === "true") return true;
    if (text === "false") return false;
    if (text === "null") return null;
    number.lastIndex = start;
    if (number.exec(this.#text)?.[0] === text && text !== "") return Number(text);
    return this.#fail(this.#describeWord(text, start), start);
  }

  #describeWord(text: string, start: number): string {
    if (text === "") return start === this.#text.length ? "the file ends too early" : "expected a value";
    if (text.startsWith("'")) return "strings need double quotes";
    if (/^[-+.\d]/.test(text)) return "this is not a number that JSON has";
    return `expected a value, such as a string in double quotes, a number, true, false or null`;
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? "";
    this.#at += found.length;
    return found;
  }

  #skipBlank(): void {
    this.#match(blank);
    const isComment = this.#text[this.#at] === "#" || /^\/[/*]/.test(this.#text.slice(this.#at, this.#at + 2));
    if (isComment) throw new SyntaxProblems([{ offset: this.#at, message: "a comment", hint: yamlHint }]);
  }

  #duplicate(key: string, offset: number): void {
    const message = `the key ${JSON.stringify(key.slice(0, 80))} is there twice`;
    this.duplicates.push({ offset, message, hint: "Remove one of them." });
  }

  #fail(message: string, offset = this.#at): never {
    throw new SyntaxProblems([...this.duplicates, { offset, message }]);
  }
}

function setMember(object: Record<string, Json>, key: string, value: Json): void {
  if (key !== "__proto__") object[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

function controlCharacter(character: string): string {
  return character === "\n" || character === "\r"
    ? "a string must end on the line that it begins on; write \\n for a line break"
    : "a control character in a string; write it as an escape such as \\t";
}
