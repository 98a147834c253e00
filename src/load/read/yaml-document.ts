import * as yaml from "yaml";
import { parseYaml } from "../../core/formats/parse-yaml.ts";
import {
  type ConfigDocument,
  type FindOffsets,
  isOlderForm,
  locateIn,
  type Offsets,
  type SourceText,
  type SyntaxProblem,
  SyntaxProblems,
} from "./document.ts";

type Parsed = yaml.Document.Parsed;

/** How YAML is read. */
export interface YamlOptions {
  /**
   * Reads as the older forms are read, whatever the file says it is: YAML 1.1, of keys that are there twice the last one
   * counts, of several documents the first. JSON may have comments and trailing commas.
   */
  readonly lenient?: boolean;
}

/** Maximum number of problems and of notes that are reported at once. */
const mostProblems = 100;
const mostNotes = 20;

/**
 * Reads a YAML file's text. Tasks, Evals and Agents of the older forms are read leniently, with notes on what that
 * changed. Throws SyntaxProblems.
 */
export function yamlDocument(source: SourceText, { lenient = false }: YamlOptions = {}): ConfigDocument {
  refuseTabs(source.text);
  const strict = lenient ? undefined : parseYaml(source.text, yaml, { stringKeys: true });
  const document = strict !== undefined && !isOlderForm(rootText(strict)) ? strict : undefined;
  return document === undefined ? readLeniently(source) : readStrictly(document, source);
}

function readStrictly(document: Parsed, source: SourceText): ConfigDocument {
  const { duplicates, aliases } = findDuplicates(document.contents);
  const keys = duplicates.map(({ key, offset }) => {
    return { offset, message: `duplicate key ${shortKey(key)}`, hint: "Remove one of them." };
  });
  refuse([...problemsOf(document, source), ...keys], source);
  return finished(document, source, aliases);
}

function readLeniently(source: SourceText): ConfigDocument {
  const document = parseOlderYaml(source.text);
  const several = document.errors.some((error) => error.code === "MULTIPLE_DOCS");
  const problems = problemsOf(document, source).filter(({ message }) => message !== moreDocuments);
  refuse(problems, source);
  const { duplicates, aliases } = findDuplicates(document.contents);
  const notes = duplicates.slice(0, mostNotes).map(({ key, offset }) => {
    const { line } = source.location(offset);
    return `${source.file}:${line}: duplicate key ${shortKey(key)}; the last one counts`;
  });
  if (several) notes.push(`${source.file} holds more than one document; only the first is read`);
  return { ...finished(document, source, aliases), notes };
}

/**
 * Parses YAML as the older forms are: version 1.1, but without sexagesimal numbers and timestamps, which the parser that they
 * are made for does not have.
 */
export function parseOlderYaml(text: string): Parsed {
  return parseYaml(text, yaml, {
    stringKeys: true,
    version: "1.1",
    customTags: (tags) =>
      tags.filter(
        (tag) =>
          typeof tag === "string" || !(tag.format === "TIME" || tag.tag === "tag:yaml.org,2002:timestamp"),
      ),
  });
}

function finished(document: Parsed, source: SourceText, aliases: number): ConfigDocument {
  const value = toValue(document, source.text, aliases);
  if (value === null && document.contents === null)
    throw new SyntaxProblems([{ offset: 0, message: "the file is empty" }]);
  return { value, source, locate: locateIn(source, finderIn(document)) };
}

/** Aliases that a file may use; together with the limit on values this refuses files that unfold without end. */
const maxAliases = 1000;
const unfoldsTooFar = "aliases that unfold to too much";

function toValue(document: Parsed, text: string, aliases: number): unknown {
  const refuseAlias = (message: string, name = ""): never => {
    throw new SyntaxProblems([{ offset: Math.max(0, text.indexOf(`*${name}`)), message }]);
  };
  // Each alias makes the parser look through all anchors.
  if (aliases > maxAliases) refuseAlias(unfoldsTooFar);
  try {
    return document.toJS({ maxAliasCount: maxAliases });
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    const unresolved = /^Unresolved alias .*: (\S+)$/.exec(error.message)?.[1];
    if (unresolved === undefined) return refuseAlias(unfoldsTooFar);
    return refuseAlias(`no anchor is named "${unresolved}"`, unresolved);
  }
}

/** What the root says of a few keys, read without unfolding anything. */
function rootText({ contents }: Parsed): ReadonlyMap<string, unknown> {
  const items = yaml.isMap(contents) ? contents.items : [];
  return new Map(
    items.flatMap(({ key, value }) =>
      yaml.isScalar(key) && yaml.isScalar(value) ? [[String(key.value), value.value] as const] : [],
    ),
  );
}

const mostTabs = 10_000;

/** Each of them would be an error of its own, and many would take long. */
function refuseTabs(text: string): void {
  const count = text.match(/^\t/gm)?.length ?? 0;
  if (count > mostTabs) throw new SyntaxProblems([{ offset: text.search(/^\t/m), message: tabs }]);
}

function refuse(problems: readonly SyntaxProblem[], source: SourceText): void {
  if (problems.length === 0) return;
  // One mistake often breaks what follows it too; only the first problem of a line is reported.
  const first = firstPerLine(problems, ({ offset }) => offset, source);
  const tooDeep = first.findIndex((problem) => problem.message === nestedTooDeeply);
  throw new SyntaxProblems(tooDeep === -1 ? first : first.slice(0, tooDeep + 1));
}

/** A hostile text can have an error for each of its characters, so only those that are reported are described. */
function problemsOf({ errors, warnings }: Parsed, source: SourceText): SyntaxProblem[] {
  const first = firstPerLine([...errors, ...warnings], ({ pos: [offset] }) => offset, source);
  return first.map((error) => describe(error, source.text));
}

/** The first item of each line, in the order of lines, up to the number of lines that are reported. */
function firstPerLine<T>(items: readonly T[], offsetOf: (item: T) => number, source: SourceText): T[] {
  const lines = new Set<number | undefined>();
  return items
    .toSorted((a, b) => offsetOf(a) - offsetOf(b))
    .filter((item) => lines.size < lines.add(source.location(offsetOf(item)).line).size)
    .slice(0, mostProblems);
}

const nestedTooDeeply = "nested too deeply";
const moreDocuments = "the file holds more than one document; a config is one";
const tabs = "a tab is used as indentation; YAML wants spaces";
const messages: Readonly<Record<string, string>> = {
  RESOURCE_EXHAUSTION: nestedTooDeeply,
  MULTIPLE_DOCS: moreDocuments,
  TAB_AS_INDENT: tabs,
};

function describe({ code, message, pos: [offset] }: yaml.YAMLError, text: string): SyntaxProblem {
  const known = messages[code];
  if (known !== undefined) return { offset, message: known };
  const before = text.slice(0, offset);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  // YAML lets nothing be added to a value such as `{workspace}`.
  const followsTemplate = /(?:^|[:,[-]\s+|\[)\{[^{}"']*\}\s*$/.test(line);
  return {
    offset: Math.min(offset, text.length),
    message: message.replace(/[\s:]+$/, ""),
    ...(followsTemplate ? { hint: "A value that begins with { has to be in quotes." } : {}),
  };
}

function shortKey(key: string): string {
  return JSON.stringify(key.slice(0, 80));
}

type Item = Partial<yaml.Pair<yaml.Node, yaml.Node | null>>;

/** Makes the function that finds places in a YAML document; it reads each mapping once, however often it is asked. */
function finderIn(document: Parsed): FindOffsets {
  const index = new WeakMap<object, ReadonlyMap<string, Item>>();
  const itemAt = (node: unknown, segment: string | number): Item | undefined => {
    if (yaml.isSeq<yaml.Node>(node) && typeof segment === "number") {
      const value = node.items[segment];
      return value === undefined ? undefined : { value };
    }
    if (!yaml.isMap<yaml.Node, yaml.Node | null>(node)) return undefined;
    // Of equal keys the last one counts.
    const items = index.get(node) ?? new Map(node.items.map((pair) => [keyText(pair.key), pair]));
    index.set(node, items);
    return items.get(String(segment));
  };
  return (path) => {
    let here: Offsets = offsetsOf({ value: document.contents }) ?? { value: 0 };
    let node: unknown = document.contents;
    for (const segment of path) {
      const item = itemAt(yaml.isAlias(node) ? node.resolve(document) : node, segment);
      if (item === undefined) return { value: here.value, found: false };
      here = offsetsOf(item) ?? here;
      node = item.value;
    }
    return { ...here, found: true };
  };
}

function keyText(key: unknown): string {
  return yaml.isScalar(key) ? String(key.value) : "";
}

function offsetsOf({ key, value }: Item): Offsets | undefined {
  const keyStart = key?.range?.[0];
  const start = value?.range?.[0] ?? keyStart;
  return start === undefined ? undefined : { key: keyStart, value: start, end: value?.range?.[1] };
}

interface DuplicateKey {
  readonly key: string;
  /** Where the later one begins. */
  readonly offset: number;
}

/** Finds keys that are in one mapping twice, and counts aliases; in time linear to the document. */
function findDuplicates(root: yaml.ParsedNode | null): {
  readonly duplicates: readonly DuplicateKey[];
  readonly aliases: number;
} {
  const duplicates: DuplicateKey[] = [];
  let aliases = 0;
  const open: unknown[] = [root];
  while (open.length > 0) {
    const node = open.pop();
    if (yaml.isAlias(node)) aliases += 1;
    // In reverse, so that they are taken in their order. A call takes only so many arguments, so not all at once.
    else if (yaml.isSeq(node)) for (const item of node.items.toReversed()) open.push(item);
    else if (yaml.isMap<yaml.Node, yaml.Node | null>(node)) {
      const seen = new Set<string>();
      for (const { key } of node.items) {
        if (!yaml.isScalar(key) || key.value === "<<") continue;
        const name = String(key.value);
        if (seen.has(name)) duplicates.push({ key: name, offset: key.range?.[0] ?? 0 });
        seen.add(name);
      }
      for (const { value } of node.items.toReversed()) open.push(value);
    }
  }
  return { duplicates, aliases };
}
