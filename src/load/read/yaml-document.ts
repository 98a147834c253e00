import type { Document, Node, Pair, ParsedNode, YAMLError } from "yaml";
import type { KeyPath } from "../../core/formats/json.ts";
import { parseYaml } from "../../core/formats/parse-yaml.ts";
import { type ConfigDocument, type FindOffsets, isOlderForm, locateIn, type Offsets } from "./document.ts";
import { type SourceText, type SyntaxProblem, SyntaxProblems } from "./source-text.ts";

type Yaml = typeof import("yaml");
type Parsed = Document.Parsed;

export interface YamlOptions {
  /**
   * Reads as the older forms are read, whatever the file says it is: YAML 1.1, of keys that are there twice the last one
   * counts, of several documents the first.
   */
  readonly lenient?: boolean;
}

/** Aliases that a file may use; together with the limit on values this refuses files that unfold without end. */
const maxAliases = 1000;

/**
 * Reads a YAML file's text. Tasks, Evals and Agents of the older forms are read leniently, with notes on what that
 * changed. Throws SyntaxProblems.
 */
export async function yamlDocument(source: SourceText, options: YamlOptions = {}): Promise<ConfigDocument> {
  const yaml = await import("yaml");
  refuseTabs(source.text);
  const strict = options.lenient === true ? undefined : parseStrictly(source.text, yaml);
  if (strict === undefined || isOlderForm(rootText(strict, yaml))) return readLeniently(source, yaml);
  const { duplicates, aliases } = findDuplicates(strict.contents, yaml);
  refuse([...problemsOf(strict, source), ...duplicates.map(duplicateProblem)], source);
  return { ...finished(strict, { source, yaml, aliases }), source };
}

function parseStrictly(text: string, yaml: Yaml): Parsed {
  return parseYaml(text, yaml, { stringKeys: true });
}

/**
 * Parses YAML as the older forms are: version 1.1, but without sexagesimal numbers and timestamps, which the parser that they
 * are made for does not have.
 */
export function parseOlderYaml(text: string, yaml: Pick<Yaml, "parseDocument">): Parsed {
  return parseYaml(text, yaml, {
    stringKeys: true,
    version: "1.1",
    customTags: (tags) => tags.filter((tag) => typeof tag === "string" || !isTime(tag)),
  });
}

function isTime(tag: { readonly tag?: string | undefined; readonly format?: string | undefined }): boolean {
  return tag.format === "TIME" || tag.tag === "tag:yaml.org,2002:timestamp";
}

function readLeniently(source: SourceText, yaml: Yaml): ConfigDocument {
  const document = parseOlderYaml(source.text, yaml);
  const several = document.errors.some((error) => error.code === "MULTIPLE_DOCS");
  const problems = problemsOf(document, source).filter(({ message }) => message !== moreDocuments);
  refuse(problems, source);
  const { duplicates, aliases } = findDuplicates(document.contents, yaml);
  const notes = [
    ...duplicates.slice(0, mostNotes).map((duplicate) => duplicateNote(duplicate, source)),
    ...(several ? [`${source.file} holds more than one document; only the first is read`] : []),
  ];
  return { ...finished(document, { source, yaml, aliases }), source, notes };
}

interface Reading {
  readonly source: SourceText;
  readonly yaml: Yaml;
  readonly aliases: number;
}

function finished(document: Parsed, reading: Reading): Pick<ConfigDocument, "value" | "locate"> {
  const { source, yaml } = reading;
  const value = toValue(document, reading);
  if (value === null && document.contents === null) throw new SyntaxProblems([emptyFile]);
  return { value, locate: locateIn(source, yamlFinder(document, yaml)) };
}

const emptyFile: SyntaxProblem = { offset: 0, message: "the file is empty" };
const unfoldsTooFar = "aliases that unfold to too much";

function toValue(document: Document, { source, aliases }: Reading): unknown {
  const first = Math.max(0, source.text.indexOf("*"));
  // Each alias makes the parser look through all anchors.
  if (aliases > maxAliases) throw new SyntaxProblems([{ offset: first, message: unfoldsTooFar }]);
  try {
    return document.toJS({ maxAliasCount: maxAliases });
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    const unresolved = /^Unresolved alias .*: (\S+)$/.exec(error.message)?.[1];
    const message = unresolved === undefined ? unfoldsTooFar : `no anchor is named "${unresolved}"`;
    const offset = Math.max(0, source.text.indexOf(`*${unresolved ?? ""}`));
    throw new SyntaxProblems([{ offset, message }]);
  }
}

/** What the root says of a few keys, read without unfolding anything. */
function rootText(document: Parsed, yaml: Yaml): ReadonlyMap<string, unknown> {
  const { contents } = document;
  if (!yaml.isMap(contents)) return new Map();
  return new Map(
    contents.items.flatMap(({ key, value }) =>
      yaml.isScalar(key) && yaml.isScalar(value) ? [[String(key.value), value.value] as const] : [],
    ),
  );
}

const mostTabs = 10_000;

/** Each of them would be an error of its own, and many would take long. */
function refuseTabs(text: string): void {
  let count = text.startsWith("\t") ? 1 : 0;
  for (let at = text.indexOf("\n\t"); at !== -1; at = text.indexOf("\n\t", at + 1)) count += 1;
  if (count <= mostTabs) return;
  const offset = text.startsWith("\t") ? 0 : text.indexOf("\n\t") + 1;
  throw new SyntaxProblems([{ offset, message: tabs }]);
}

function refuse(problems: readonly SyntaxProblem[], source: SourceText): void {
  if (problems.length > 0) throw new SyntaxProblems(onePerLine(problems, source));
}

/** A hostile text can have an error for each of its characters, so only those that are reported are described. */
function problemsOf(document: Parsed, source: SourceText): SyntaxProblem[] {
  const errors = document.errors.concat(document.warnings);
  return firstPerLine(errors, ({ pos: [offset] }) => offset, source).map((error) =>
    describe(error, source.text),
  );
}

/** One mistake often breaks what follows it too; only the first problem of a line is reported. */
function onePerLine(problems: readonly SyntaxProblem[], source: SourceText): SyntaxProblem[] {
  const first = firstPerLine(problems, ({ offset }) => offset, source);
  const tooDeep = first.findIndex((problem) => problem.message === nestedTooDeeply);
  return first.slice(0, tooDeep === -1 ? mostProblems : tooDeep + 1);
}

/** The first item of each line, in the order of lines, up to the number of lines that are reported. */
function firstPerLine<T>(items: readonly T[], offsetOf: (item: T) => number, source: SourceText): T[] {
  const lines = new Set<number | undefined>();
  return items
    .toSorted((a, b) => offsetOf(a) - offsetOf(b))
    .filter((item) => lines.size < lines.add(source.location(offsetOf(item)).line).size)
    .slice(0, mostProblems);
}

/** Maximum number of problems reported at once. */
const mostProblems = 100;
const mostNotes = 20;
const nestedTooDeeply = "nested too deeply";
const moreDocuments = "the file holds more than one document; a config is one";
const tabs = "a tab is used as indentation; YAML wants spaces";

function describe(error: YAMLError, text: string): SyntaxProblem {
  const [offset] = error.pos;
  switch (error.code) {
    case "RESOURCE_EXHAUSTION":
      return { offset, message: nestedTooDeeply };
    case "MULTIPLE_DOCS":
      return { offset, message: moreDocuments };
    case "TAB_AS_INDENT":
      return { offset, message: tabs };
    default:
      return {
        offset: Math.min(offset, text.length),
        message: error.message.replace(/[\s:]+$/, ""),
        ...(followsTemplate(text.slice(0, offset)) ? { hint: quoteIt } : {}),
      };
  }
}

const quoteIt = "A value that begins with { has to be in quotes.";

/** Whether the last line of a text ends with a value such as `{workspace}`, to which YAML lets nothing be added. */
function followsTemplate(before: string): boolean {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  return /(?:^|[:,[-]\s+|\[)\{[^{}"']*\}\s*$/.test(line);
}

function duplicateProblem({ offset, key }: DuplicateKey): SyntaxProblem {
  return { offset, message: `duplicate key ${shortKey(key)}`, hint: "Remove one of them." };
}

function duplicateNote({ offset, key }: DuplicateKey, source: SourceText): string {
  const { line } = source.location(offset);
  return `${source.file}:${line}: duplicate key ${shortKey(key)}; the last one counts`;
}

function shortKey(key: string): string {
  return JSON.stringify(key.slice(0, 80));
}

/** Pairs of mappings by their keys; of equal keys the last one counts. */
type Index = WeakMap<object, ReadonlyMap<string, Pair<Node, Node | null>>>;

/** Makes the function that finds places in a YAML document; it reads each mapping once, however often it is asked. */
function yamlFinder(document: Document.Parsed, yaml: Yaml): FindOffsets {
  const index: Index = new WeakMap();
  return (path: KeyPath) => {
    let here: Offsets = offsetsOf(document.contents) ?? { value: 0 };
    let node: Node | null | undefined = document.contents;
    for (const segment of path) {
      const target = yaml.isAlias(node) ? node.resolve(document) : node;
      const next = step(target, segment, { yaml, index });
      if (next === undefined) return { value: here.value, found: false };
      here = offsetsOf(next.value, next.key) ?? here;
      node = next.value;
    }
    return { ...here, found: true };
  };
}

interface Member {
  readonly key?: Node;
  readonly value: Node | null;
}

function step(
  node: Node | null | undefined,
  segment: string | number,
  { yaml, index }: { readonly yaml: Yaml; readonly index: Index },
): Member | undefined {
  if (yaml.isMap<Node, Node | null>(node)) {
    const pairs = index.get(node) ?? new Map(node.items.flatMap((pair) => keyed(pair, yaml)));
    index.set(node, pairs);
    const pair = pairs.get(String(segment));
    return pair === undefined ? undefined : { key: pair.key, value: pair.value };
  }
  if (!yaml.isSeq<Node>(node) || typeof segment !== "number") return undefined;
  const item = node.items[segment];
  return item === undefined ? undefined : { value: item };
}

function keyed(
  pair: Pair<Node, Node | null>,
  yaml: Yaml,
): readonly (readonly [string, Pair<Node, Node | null>])[] {
  return yaml.isScalar(pair.key) ? [[String(pair.key.value), pair]] : [];
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

/** A key that its mapping has already. */
export interface DuplicateKey {
  readonly key: string;
  /** Where the later one begins. */
  readonly offset: number;
}

/** Finds keys that are in one mapping twice, and counts aliases; in time linear to the document. */
function findDuplicates(
  root: ParsedNode | null,
  yaml: Yaml,
): { readonly duplicates: readonly DuplicateKey[]; readonly aliases: number } {
  const duplicates: DuplicateKey[] = [];
  let aliases = 0;
  const open: unknown[] = [root];
  while (open.length > 0) {
    const node = open.pop();
    if (yaml.isAlias(node)) aliases += 1;
    else if (yaml.isSeq(node)) pushReversed(open, node.items);
    else if (yaml.isMap<Node, Node | null>(node)) {
      for (const duplicate of duplicatesIn(node.items, yaml)) duplicates.push(duplicate);
      pushReversed(
        open,
        node.items.map(({ value }) => value),
      );
    }
  }
  return { duplicates, aliases };
}

/** So that they are taken in their order. A call takes only so many arguments, so not all at once. */
function pushReversed(open: unknown[], items: readonly unknown[]): void {
  for (const item of items.toReversed()) open.push(item);
}

function duplicatesIn(items: readonly { readonly key: Node }[], yaml: Yaml): DuplicateKey[] {
  const seen = new Set<string>();
  return items.flatMap(({ key }) => {
    if (!yaml.isScalar(key) || key.value === "<<") return [];
    const name = String(key.value);
    const isDuplicate = seen.has(name);
    seen.add(name);
    return isDuplicate ? [{ key: name, offset: key.range?.[0] ?? 0 }] : [];
  });
}
