import type { KeyPath } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import { maxDepth } from "../../core/formats/read-json.ts";
import { type ConfigDocument, type FindOffsets, locateIn } from "./document.ts";
import { type SourceText, type SyntaxProblem, SyntaxProblems } from "./source-text.ts";

/** Reads a JSON file's text. Throws SyntaxProblems. */
export function jsonDocument(source: SourceText): ConfigDocument {
  const { value, position } = parseJson(source.text);
  return { value, source, locate: locateIn(source, finder(source.text, position)) };
}

function finder(text: string, root: JsonPosition): FindOffsets {
  return (path: KeyPath) => {
    let key: number | undefined;
    let position = root;
    for (const segment of path) {
      const next = step(position, segment);
      if (next === undefined) return { value: startOf(position), found: false };
      key = next.key;
      position = next.value;
    }
    const value = startOf(position);
    const end = typeof position === "number" ? endOfScalar(text, position) : undefined;
    return {
      value,
      found: true,
      ...(key === undefined ? {} : { key }),
      ...(end === undefined ? {} : { end }),
    };
  };
}

function step(
  position: JsonPosition,
  segment: string | number,
): { key?: number; value: JsonPosition } | undefined {
  if (typeof position === "number") return undefined;
  if ("members" in position) return position.members.get(String(segment));
  const item = typeof segment === "number" ? position.items[segment] : undefined;
  return item === undefined ? undefined : { value: item };
}

function startOf(position: JsonPosition): number {
  return typeof position === "number" ? position : position.start;
}

function endOfScalar(text: string, start: number): number {
  const string = /"(?:[^"\\]|\\.)*"/y;
  string.lastIndex = start;
  return start + (string.exec(text)?.[0].length ?? 1);
}

/** Where a value stands: the offset of a scalar, or of a container with those of its members. */
export type JsonPosition = number | JsonObjectPosition | JsonArrayPosition;

interface JsonObjectPosition {
  readonly start: number;
  readonly members: ReadonlyMap<string, { readonly key: number; readonly value: JsonPosition }>;
}

interface JsonArrayPosition {
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

/** What ends the plain part of a string: a backslash, or a control character. */
const special = /[^ !#-[\]-\uffff]/;
/** Everything but quotes, backslashes and control characters. */
const plainText = /[ !#-[\]-\uffff]*/y;
const escape = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const word = /[^\s,:{}[\]"]+/y;
/** Repeated keys that are told at once. */
const mostDuplicates = 100;
const commentHint = "JSON has no comments. Remove it, or name the file .yaml.";

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
    switch (this.#text.charAt(start)) {
      case "{":
        return this.#object(start);
      case "[":
        return this.#array(start);
      case '"':
        return { value: this.#string(), position: start };
      default:
        return { value: this.#scalar(), position: start };
    }
  }

  #enter(): void {
    this.#depth += 1;
    if (this.#depth > maxDepth) this.#fail(`nested deeper than ${maxDepth} levels`);
    this.#at += 1;
    this.#skipBlank();
  }

  #leave(): void {
    this.#depth -= 1;
    this.#at += 1;
  }

  #object(start: number): ParsedJson {
    const value: Record<string, Json> = {};
    const members = new Map<string, { key: number; value: JsonPosition }>();
    this.#enter();
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
    this.#leave();
    return { value, position: { start, members } };
  }

  #array(start: number): ParsedJson {
    const value: Json[] = [];
    const items: JsonPosition[] = [];
    this.#enter();
    while (this.#text[this.#at] !== "]") {
      const item = this.#value();
      value.push(item.value);
      items.push(item.position);
      this.#separator("]", start);
    }
    this.#leave();
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
    if (next === undefined)
      this.#fail(`the file ends, but this ${kind} is not closed with "${close}"`, start);
    if (next !== ",") this.#fail(`expected "," or "${close}"`);
    const comma = this.#at;
    this.#at += 1;
    this.#skipBlank();
    if (this.#text[this.#at] === close) this.#fail(`a comma before the closing "${close}"`, comma);
  }

  #string(): string {
    const start = this.#at + 1;
    const end = this.#text.indexOf('"', start);
    const text = this.#text.slice(start, Math.max(start, end));
    if (end === -1 || special.test(text)) return this.#unusualString();
    this.#at = end + 1;
    return text;
  }

  /** A string with escapes in it, or one that is wrong. */
  #unusualString(): string {
    const start = this.#at;
    this.#at += 1;
    for (;;) {
      this.#match(plainText);
      const next = this.#text[this.#at];
      if (next === '"') break;
      if (next !== "\\")
        this.#fail(next === undefined ? "the file ends inside a string" : controlCharacter(next));
      if (this.#match(escape) === "")
        this.#fail('after a backslash JSON wants one of " \\ / b f n r t uXXXX');
    }
    this.#at += 1;
    return JSON.parse(this.#text.slice(start, this.#at)) as string;
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
    while (isBlank(this.#text.charCodeAt(this.#at))) this.#at += 1;
    const next = this.#text.charAt(this.#at);
    if (next === "#" || (next === "/" && /^\/[/*]/.test(this.#text.slice(this.#at, this.#at + 2)))) {
      this.#fail("a comment", this.#at, commentHint);
    }
  }

  #duplicate(key: string, offset: number): void {
    const message = `the key ${JSON.stringify(key.slice(0, 80))} is there twice`;
    this.duplicates.push({ offset, message, hint: "Remove one of them." });
    if (this.duplicates.length === mostDuplicates) throw new SyntaxProblems(this.duplicates);
  }

  #fail(message: string, offset = this.#at, hint?: string): never {
    throw new SyntaxProblems([
      ...this.duplicates,
      { offset, message, ...(hint === undefined ? {} : { hint }) },
    ]);
  }
}

/** Space, tab, line feed, carriage return. */
function isBlank(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
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
