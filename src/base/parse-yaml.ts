import * as yaml from "yaml";
import { maxFileAliases } from "./limits.ts";
import { type FindOffsets, maxProblems, type Offsets, type SyntaxProblem } from "./problem.ts";

type Parsed = yaml.Document.Parsed;
type Options = yaml.ParseOptions & yaml.DocumentOptions & yaml.SchemaOptions;

/**
 * Parses YAML in time linear to the text, whatever is wrong with it: keys that are there twice are left to `findDuplicates`,
 * since the library compares every key with every other. Never throws; problems are among the document's errors, their
 * messages without places.
 */
function parseYaml(text: string, options: Options = {}): Parsed {
  return yaml.parseDocument(text, { ...options, prettyErrors: false, uniqueKeys: false });
}

/**
 * Reads YAML that a program may have written, in time linear to the text. Throws an Error for invalid YAML and for a
 * duplicate key, which a bad merge may leave.
 */
export function parseStrictYaml(text: string): unknown {
  const lineCounter = new yaml.LineCounter();
  const document = parseYaml(text, { lineCounter });
  const placeOf = (offset: number): string => {
    const { line, col } = lineCounter.linePos(offset);
    return `at line ${line}, column ${col}`;
  };
  const [error] = document.errors;
  if (error !== undefined) throw new Error(`${error.message} ${placeOf(error.pos[0])}`, { cause: error });
  const { duplicates, aliases } = findDuplicates(document.contents);
  const [duplicate] = duplicates;
  if (duplicate !== undefined)
    throw new Error(`duplicate key ${JSON.stringify(duplicate.key)}, again ${placeOf(duplicate.offset)}`);
  if (aliases > maxFileAliases) throw new Error(`it has more than ${maxFileAliases} aliases`);
  return document.toJS({ maxAliasCount: maxFileAliases });
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

/** Notes that are given at once. */
const maxNotes = 20;

/** A YAML text as it was read. */
export interface YamlText {
  /** What is wrong with it; there is no value then. */
  readonly problems: readonly SyntaxProblem[];
  readonly value?: unknown;
  readonly find: FindOffsets;
  /** What a lenient reading changed; without an offset it is about the whole text. */
  readonly notes: readonly { readonly offset?: number; readonly message: string }[];
}

/**
 * Reads a YAML text. Where `lenient` is true, or true of its root, it is read as the older forms are: as YAML 1.1, where of keys
 * that are there twice the last one counts, and of several documents the first.
 */
export function readYaml(text: string, lenient: true | ((root: Scalars) => boolean)): YamlText {
  const strict = lenient === true ? undefined : parseYaml(text, { stringKeys: true });
  if (strict === undefined || lenient === true || lenient(scalarsOf(strict))) return readLeniently(text);
  const { duplicates, aliases } = findDuplicates(strict.contents);
  const keys = duplicates.map(({ key, offset }) => {
    return { offset, message: `duplicate key ${shortKey(key)}`, hint: "Remove one of them." };
  });
  return finished(strict, text, { problems: [...problemsOf(strict, text), ...keys], aliases, notes: [] });
}

function readLeniently(text: string): YamlText {
  const document = parseOlderYaml(text);
  const several = document.errors.some((error) => error.code === "MULTIPLE_DOCS");
  const problems = problemsOf(document, text).filter(({ message }) => message !== moreDocuments);
  const { duplicates, aliases } = findDuplicates(document.contents);
  const repeated = duplicates.slice(0, maxNotes).map(({ key, offset }) => {
    return { offset, message: `duplicate key ${shortKey(key)}; the last one counts` };
  });
  const only = several ? [{ message: "holds more than one document; only the first is read" }] : [];
  return finished(document, text, { problems, aliases, notes: [...repeated, ...only] });
}

/**
 * Parses YAML as the older forms are: version 1.1, but without sexagesimal numbers and timestamps, which the parser that they
 * are made for does not have.
 */
export function parseOlderYaml(text: string): Parsed {
  return parseYaml(text, {
    stringKeys: true,
    version: "1.1",
    customTags: (tags) =>
      tags.filter(
        (tag) =>
          typeof tag === "string" || !(tag.format === "TIME" || tag.tag === "tag:yaml.org,2002:timestamp"),
      ),
  });
}

interface FoundInYaml extends Pick<YamlText, "problems" | "notes"> {
  readonly aliases: number;
}

function finished(document: Parsed, text: string, { problems, aliases, notes }: FoundInYaml): YamlText {
  if (problems.length > 0) return broken(reported(problems, text));
  if (document.contents === null) return broken([{ offset: 0, message: "the file is empty" }]);
  return { find: finderIn(document), notes, ...valueOf(document, text, aliases) };
}

function broken(problems: readonly SyntaxProblem[]): YamlText {
  return { problems, find: () => ({ value: 0, found: false }), notes: [] };
}

const unfoldsTooFar = "aliases that unfold to too much";

function valueOf(document: Parsed, text: string, aliases: number): Pick<YamlText, "value" | "problems"> {
  const refused = (message: string, name = ""): Pick<YamlText, "problems"> => ({
    problems: [{ offset: Math.max(0, text.indexOf(`*${name}`)), message }],
  });
  if (aliases > maxFileAliases) return refused(unfoldsTooFar);
  try {
    return { value: document.toJS({ maxAliasCount: maxFileAliases }), problems: [] };
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    const unresolved = /^Unresolved alias .*: (\S+)$/.exec(error.message)?.[1];
    if (unresolved === undefined) return refused(unfoldsTooFar);
    return refused(`no anchor is named "${unresolved}"`, unresolved);
  }
}

/** The members of the root that are no lists or maps, read without unfolding anything. */
type Scalars = Readonly<Record<string, unknown>>;

function scalarsOf({ contents }: Parsed): Scalars {
  const items = yaml.isMap(contents) ? contents.items : [];
  return Object.fromEntries(
    items.flatMap(({ key, value }) =>
      yaml.isScalar(key) && yaml.isScalar(value) ? [[String(key.value), value.value] as const] : [],
    ),
  );
}

/** The problems that are reported: one mistake often breaks what follows it too, so only the first of each line is. */
function reported(problems: readonly SyntaxProblem[], text: string): readonly SyntaxProblem[] {
  const first = firstPerLine(problems, ({ offset }) => offset, text);
  const tooDeep = first.findIndex((problem) => problem.message === nestedTooDeeply);
  return tooDeep === -1 ? first : first.slice(0, tooDeep + 1);
}

/** A hostile text can have an error for each of its characters, so only those that are reported are described. */
function problemsOf({ errors, warnings }: Parsed, text: string): SyntaxProblem[] {
  const first = firstPerLine([...errors, ...warnings], ({ pos: [offset] }) => offset, text);
  return first.map((error) => describe(error, text));
}

/** The first item of each line, in the order of lines, up to the number of lines that are reported. */
function firstPerLine<T>(items: readonly T[], offsetOf: (item: T) => number, text: string): T[] {
  let before: number | undefined;
  return items
    .toSorted((a, b) => offsetOf(a) - offsetOf(b))
    .filter((item) => {
      const offset = offsetOf(item);
      const isFirst = before === undefined || text.slice(before, offset).includes("\n");
      before = offset;
      return isFirst;
    })
    .slice(0, maxProblems);
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
