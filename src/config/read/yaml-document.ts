import type { Document, Node, ParsedNode, YAMLError } from "yaml";
import type { KeyPath } from "../../core/formats/key-path.ts";
import type { ConfigDocument } from "./document.ts";
import { type FindOffsets, locateIn, type Offsets } from "./locate.ts";
import type { SourceText } from "./source-text.ts";
import { type SyntaxProblem, SyntaxProblems } from "./syntax-problems.ts";

type Yaml = typeof import("yaml");

/** Aliases that a file may use; together with the limit on values this refuses files that unfold without end. */
const maxAliases = 1000;

/** Reads a YAML file's text. Throws SyntaxProblems. */
export async function yamlDocument(source: SourceText): Promise<ConfigDocument> {
  const yaml = await import("yaml");
  const document = yaml.parseDocument(source.text, { prettyErrors: false, stringKeys: true });
  const problems = [...document.errors, ...document.warnings].map((error) => describe(error, source.text));
  if (problems.length > 0) throw new SyntaxProblems(onePerLine(problems, source));
  const value = toValue(document, source);
  if (value === null && document.contents === null) throw new SyntaxProblems([emptyFile]);
  return { value, source, locate: locateIn(source, finder(document, yaml)) };
}

const emptyFile: SyntaxProblem = { offset: 0, message: "the file is empty" };

function toValue(document: Document, source: SourceText): unknown {
  try {
    return document.toJS({ maxAliasCount: maxAliases });
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    const unresolved = /^Unresolved alias .*: (\S+)$/.exec(error.message)?.[1];
    const message =
      unresolved === undefined ? "aliases that unfold to too much" : `no anchor is named "${unresolved}"`;
    const offset = Math.max(0, source.text.indexOf(`*${unresolved ?? ""}`));
    throw new SyntaxProblems([{ offset, message }]);
  }
}

/** One mistake often breaks what follows it too; of what is wrong with a line, the first thing is told. */
function onePerLine(problems: readonly SyntaxProblem[], source: SourceText): SyntaxProblem[] {
  const lines = new Set<number | undefined>();
  const first = problems
    .toSorted((a, b) => a.offset - b.offset)
    .filter(({ offset }) => lines.size < lines.add(source.location(offset).line).size);
  const tooDeep = first.findIndex((problem) => problem.message === nestedTooDeeply);
  return first.slice(0, tooDeep === -1 ? mostProblems : tooDeep + 1);
}

/** Problems that are told at once. */
const mostProblems = 100;
const nestedTooDeeply = "nested too deeply";

function describe(error: YAMLError, text: string): SyntaxProblem {
  const [offset] = error.pos;
  switch (error.code) {
    case "RESOURCE_EXHAUSTION":
      return { offset, message: nestedTooDeeply };
    case "DUPLICATE_KEY":
      return {
        offset,
        message: `the key ${keyAt(text, offset)} is there twice`,
        hint: "Remove one of them.",
      };
    case "MULTIPLE_DOCS":
      return { offset, message: "the file holds more than one document; a config is one" };
    case "TAB_AS_INDENT":
      return { offset, message: "a tab is used as indentation; YAML wants spaces" };
    default:
      return { offset, message: error.message.replace(/[\s:]+$/, "") };
  }
}

function keyAt(text: string, offset: number): string {
  const key = /^(?:"[^"]*"|'[^']*'|[^:\n]*)/.exec(text.slice(offset, offset + 80))?.[0] ?? "";
  return /^["']/.test(key) ? key : `"${key.trim()}"`;
}

function finder(document: Document.Parsed, yaml: Yaml): FindOffsets {
  return (path: KeyPath) => {
    let here: Offsets = offsetsOf(document.contents) ?? { value: 0 };
    let node: Node | null | undefined = document.contents;
    for (const segment of path) {
      const next = step(resolved(node, document, yaml), segment, yaml);
      if (next === undefined) return { value: here.value, found: false };
      here = offsetsOf(next.value, next.key) ?? here;
      node = next.value;
    }
    return { ...here, found: true };
  };
}

function resolved(node: Node | null | undefined, document: Document, yaml: Yaml): Node | null | undefined {
  return yaml.isAlias(node) ? node.resolve(document) : node;
}

interface Member {
  readonly key?: Node;
  readonly value: Node | null;
}

function step(node: Node | null | undefined, segment: string | number, yaml: Yaml): Member | undefined {
  if (yaml.isMap<Node, Node | null>(node)) {
    const pair = node.items.find(({ key }) => yaml.isScalar(key) && key.value === String(segment));
    return pair === undefined ? undefined : { key: pair.key, value: pair.value };
  }
  if (!yaml.isSeq<Node>(node) || typeof segment !== "number") return undefined;
  const item = node.items[segment];
  return item === undefined ? undefined : { value: item };
}

function offsetsOf(value: Node | ParsedNode | null, key?: Node): Offsets | undefined {
  const keyStart = key?.range?.[0];
  const start = value?.range?.[0] ?? keyStart;
  if (start === undefined) return undefined;
  const end = value?.range?.[1];
  return {
    value: start,
    ...(keyStart === undefined ? {} : { key: keyStart }),
    ...(end === undefined ? {} : { end }),
  };
}
