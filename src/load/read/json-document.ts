import { type Node, parseTree, printParseErrorCode, visit } from "jsonc-parser";
import type { Json } from "../../core/formats/model.ts";
import { maxDepth } from "../../core/formats/read-json.ts";
import { type SourceText, type SyntaxProblem, SyntaxProblems } from "../problems.ts";
import { type ConfigDocument, type FindOffsets, locateIn } from "./document.ts";

/** Reads a JSON file's text. Throws SyntaxProblems. */
export function jsonDocument(source: SourceText): ConfigDocument {
  let tree: Node | undefined;
  return {
    value: parseJson(source.text),
    source,
    locate: locateIn(source, (path) => offsetsIn((tree ??= parseTree(source.text)), path)),
  };
}

/** Offsets of what a path leads to, or of the innermost value around it that exists. */
function offsetsIn(root: Node | undefined, path: Parameters<FindOffsets>[0]): ReturnType<FindOffsets> {
  let node = root;
  let key: Node | undefined;
  for (const segment of path) {
    const { type, children = [] }: Partial<Node> = node ?? {};
    const around = node?.offset ?? 0;
    if (type === "object")
      [key, node] = children.find((each) => each.children?.[0]?.value === String(segment))?.children ?? [];
    else [key, node] = [undefined, typeof segment === "number" ? children[segment] : undefined];
    if (node === undefined) return { value: around, found: false };
  }
  const { offset = 0, length = 0, children }: Partial<Node> = node ?? {};
  const end = path.length > 0 && children === undefined ? offset + length : undefined;
  return { value: offset, key: key?.offset, end, found: true };
}

/** Maximum number of duplicate keys that are listed at once. */
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
  const leave = (): void => void open.pop();
  visit(
    text,
    {
      onObjectBegin: enter,
      onObjectEnd: leave,
      onArrayBegin: enter,
      onArrayEnd: leave,
      onObjectProperty(key, offset) {
        const keys = open.at(-1);
        const message = `duplicate key ${JSON.stringify(key.slice(0, 80))}`;
        if (keys?.has(key) === true) duplicates.push({ offset, message, hint: "Remove one of them." });
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

const notANumber = "this is not a number that JSON has";
const messages: Readonly<Record<string, string>> = {
  PropertyNameExpected: "expected a key in double quotes",
  ColonExpected: 'expected ":" after the key',
  CommaExpected: 'expected "," before the next value',
  CloseBraceExpected: 'expected "," or "}"',
  CloseBracketExpected: 'expected "," or "]"',
  EndOfFileExpected: "something follows the end of the document",
  UnexpectedEndOfString: "a string must end on the line that it begins on; write \\n for a line break",
  UnexpectedEndOfNumber: notANumber,
  InvalidUnicode: "after \\u JSON wants four hexadecimal digits",
  InvalidEscapeCharacter: 'after a backslash JSON wants one of " \\ / b f n r t uXXXX',
  InvalidCharacter: "a control character in a string; write it as an escape such as \\t",
};

function describe(code: string, found: string): Omit<SyntaxProblem, "offset"> {
  if (code === "InvalidCommentToken" || code === "UnexpectedEndOfComment" || found.startsWith("#"))
    return { message: "a comment", hint: "JSON has no comments. Remove it, or name the file .yaml." };
  if (code === "InvalidSymbol")
    return { message: /^[-+.\d]/.test(found) ? notANumber : "keys and strings need double quotes" };
  const usual = "expected a value, such as a string in double quotes, a number, true, false or null";
  return { message: messages[code] ?? usual };
}
