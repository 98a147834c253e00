import { type Node, parseTree, printParseErrorCode, visit } from "jsonc-parser";
import type { KeyPath } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import { maxDepth } from "../../core/formats/read-json.ts";
import { type ConfigDocument, locateIn, type Offsets } from "./document.ts";
import { type SourceText, type SyntaxProblem, SyntaxProblems } from "./source-text.ts";

/** Reads a JSON file's text. Throws SyntaxProblems. */
export function jsonDocument(source: SourceText): ConfigDocument {
  const value = parseJson(source.text);
  let tree: Node | undefined;
  return {
    value,
    source,
    locate: locateIn(source, (path) => offsetsIn((tree ??= parseTree(source.text)), path)),
  };
}

/** Offsets of what a path leads to, or of the innermost value around it that exists. */
function offsetsIn(root: Node | undefined, path: KeyPath): Offsets & { readonly found: boolean } {
  let here: Offsets = { value: root?.offset ?? 0 };
  let node = root;
  for (const segment of path) {
    const next: readonly Node[] = childrenAt(node, segment);
    node = next.at(-1);
    if (node === undefined) return { value: here.value, found: false };
    const [key] = next.length > 1 ? next : [];
    here = {
      value: node.offset,
      ...(key === undefined ? {} : { key: key.offset }),
      ...(node.children === undefined ? { end: node.offset + node.length } : {}),
    };
  }
  return { ...here, found: true };
}

/** The key and the value of a member, or the value of an item; empty where there is none. */
function childrenAt({ type, children = [] }: Node = noNode, segment: string | number): readonly Node[] {
  if (type === "object") {
    const member = children.find((each) => each.children?.[0]?.value === String(segment));
    return member?.children ?? [];
  }
  const item = type === "array" && typeof segment === "number" ? children[segment] : undefined;
  return item === undefined ? [] : [item];
}

const noNode: Node = { type: "null", offset: 0, length: 0 };

/** Duplicate keys that are listed at once. */
const mostDuplicates = 100;

/**
 * Parses strict JSON. Unlike `JSON.parse` it refuses duplicate keys and deep nesting, and knows the place of a mistake. Throws
 * {@link SyntaxProblems}.
 */
export function parseJson(text: string): Json {
  if (/^[ \t\r\n]*$/.test(text))
    throw new SyntaxProblems([{ offset: text.length, message: "the file is empty" }]);
  const duplicates: SyntaxProblem[] = [];
  const open: Set<string>[] = [];
  const fail = (problem: SyntaxProblem): never => {
    throw new SyntaxProblems([...duplicates, problem]);
  };
  const enter = (offset: number): void => {
    if (open.length === maxDepth) fail({ offset, message: `nested deeper than ${maxDepth} levels` });
    open.push(new Set());
  };
  const leave = (): void => {
    open.pop();
  };
  visit(
    text,
    {
      onObjectBegin: enter,
      onObjectEnd: leave,
      onArrayBegin: enter,
      onArrayEnd: leave,
      onObjectProperty(key, offset) {
        const keys = open.at(-1);
        if (keys?.has(key) === true)
          duplicates.push({
            offset,
            message: `duplicate key ${JSON.stringify(key.slice(0, 80))}`,
            hint: "Remove one of them.",
          });
        if (duplicates.length === mostDuplicates) throw new SyntaxProblems(duplicates);
        keys?.add(key);
      },
      onError(code, offset, length) {
        fail({ offset, ...describe(printParseErrorCode(code), text.slice(offset, offset + length)) });
      },
    },
    { disallowComments: true },
  );
  if (duplicates.length > 0) throw new SyntaxProblems(duplicates);
  return JSON.parse(text) as Json;
}

const messages: Readonly<Record<string, string>> = {
  PropertyNameExpected: "expected a key in double quotes",
  ColonExpected: 'expected ":" after the key',
  CommaExpected: 'expected "," before the next value',
  CloseBraceExpected: 'expected "," or "}"',
  CloseBracketExpected: 'expected "," or "]"',
  EndOfFileExpected: "something follows the end of the document",
  UnexpectedEndOfString: "a string must end on the line that it begins on; write \\n for a line break",
  UnexpectedEndOfNumber: "this is not a number that JSON has",
  InvalidUnicode: "after \\u JSON wants four hexadecimal digits",
  InvalidEscapeCharacter: 'after a backslash JSON wants one of " \\ / b f n r t uXXXX',
  InvalidCharacter: "a control character in a string; write it as an escape such as \\t",
};

function describe(code: string, found: string): Omit<SyntaxProblem, "offset"> {
  if (code === "InvalidCommentToken" || code === "UnexpectedEndOfComment" || found.startsWith("#"))
    return { message: "a comment", hint: "JSON has no comments. Remove it, or name the file .yaml." };
  if (code === "InvalidSymbol") {
    const isNumber = /^[-+.\d]/.test(found);
    return {
      message: isNumber ? "this is not a number that JSON has" : "keys and strings need double quotes",
    };
  }
  const usual = "expected a value, such as a string in double quotes, a number, true, false or null";
  return { message: messages[code] ?? usual };
}
