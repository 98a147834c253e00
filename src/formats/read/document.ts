import { createScanner, type Node, parseTree, printParseErrorCode, visit } from "jsonc-parser";
import {
  codeFrame,
  type Diagnostic,
  formatLocation,
  McpvalsError,
  type SourceLocation,
} from "../../base/error.ts";
import { asObject, formatKeyPath, memberOf, withoutUndefined, type Json } from "../../base/json.ts";
import {
  type FindOffsets,
  type Locate,
  placeProblems,
  type Problem,
  type SyntaxProblem,
} from "../../base/problem.ts";
import { maxFileDepth } from "../../base/limits.ts";
import { jsonToken, readJson } from "../../base/read-json.ts";
import { maskSecrets } from "../secrets.ts";
import { createRedactor, type Secret } from "../../trace/redact.ts";

/** The text of a file, and where its lines are. */
export class SourceText {
  /** The file as messages name it. */
  readonly file: string;
  readonly text: string;
  #lineStarts: number[] | undefined;

  constructor(file: string, text: string) {
    this.file = file;
    this.text = text;
  }

  /** The place of an offset, with the key path when one is given. Columns count UTF-16 units. */
  location(offset: number, path = ""): SourceLocation {
    const starts = this.#starts();
    let [low, high] = [0, starts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    const column = offset - (starts[low] ?? 0) + 1;
    return { file: this.file, line: low + 1, column, ...(path === "" ? {} : { path }) };
  }

  /** The lines around a place, ready to print. */
  frame(location: Pick<SourceLocation, "line" | "column">): string | undefined {
    return codeFrame((line) => this.#line(line), location);
  }

  #line(line: number): string | undefined {
    const starts = this.#starts();
    const start = starts[line - 1];
    if (start === undefined || (start === this.text.length && line > 1)) return undefined;
    const next = starts[line];
    return this.text.slice(start, next === undefined ? undefined : next - 1).replace(/\r$/, "");
  }

  #starts(): readonly number[] {
    this.#lineStarts ??= [0, ...Array.from(this.text.matchAll(/\n/g), ({ index }) => index + 1)];
    return this.#lineStarts;
  }
}

/** A text that is not well-formed; it carries everything that is wrong with it. */
export class SyntaxProblems extends Error {
  readonly problems: readonly SyntaxProblem[];

  constructor(problems: readonly SyntaxProblem[]) {
    super(problems[0]?.message ?? "syntax error");
    this.problems = problems;
  }

  /** The same with places in the text. */
  in(source: SourceText): McpvalsError {
    return failureOf(
      this.problems.map(({ offset, message, hint }) => {
        const location = source.location(offset);
        const frame = source.frame(location);
        const masked = frame === undefined ? undefined : maskSecrets(frame);
        return withoutUndefined({ code: "config/syntax" as const, message, location, hint, frame: masked });
      }),
    );
  }
}

/** One error for all problems of a file. Its code is that of the first problem. */
export function failureOf(diagnostics: readonly Diagnostic[], cause?: unknown): McpvalsError {
  const [first] = diagnostics;
  if (first === undefined) throw new Error("a failure without a problem", { cause });
  const { code, message, location, hint } = first;
  const where = location === undefined ? "" : `${formatLocation(location)}: `;
  const more = diagnostics.length === 1 ? "" : ` (and ${diagnostics.length - 1} more)`;
  const details = withoutUndefined({ diagnostics, location, hint, cause });
  return new McpvalsError(code, `${where}${message}${more}`, details);
}

/** A config as it was read, before anything is known of what it should hold. */
export interface ConfigDocument {
  /** JSON when it came from JSON or YAML; anything at all when a program made it. */
  readonly value: unknown;
  readonly locate: Locate;
  /** Absent when a program made the value, so that no text stands for its parts. */
  readonly source?: SourceText;
  /** What a lenient reading changed: one sentence each, with the place. */
  readonly notes?: readonly string[];
  /** Absolute paths of the files that a program which made the value imports. */
  readonly imports?: readonly string[];
}

/** A document that a program made; `file` is its name in messages. */
export function valueDocument(value: unknown, file: string): ConfigDocument {
  return {
    value,
    locate: ({ path }) => ({ file, ...(path.length === 0 ? {} : { path: formatKeyPath(path) }) }),
  };
}

/** Makes the function that finds places in a text. */
function locateIn(source: SourceText, find: FindOffsets): Locate {
  return ({ path, at, text }) => {
    const { key, value, end = value, found } = find(path);
    const offset = at === "key" && found && key !== undefined ? key : value;
    const inner = text === undefined ? -1 : source.text.slice(value, end).indexOf(text);
    return source.location(inner === -1 ? offset : value + inner, formatKeyPath(path));
  };
}

/** The root of a document; empty when it is not an object. */
export type Root = ReturnType<typeof asObject>;

/** What a document says it is; `waza` is an eval of that tool. */
export type DocumentKind = "Task" | "Eval" | "Agent" | "waza" | "config";

/**
 * The kind that the root of a document names; when it names none, `waza` or `config` by what it holds; undefined when it is one
 * that does not exist.
 */
export function documentKind(root: Root): DocumentKind | undefined {
  const [key, kind] = memberOf(root, "kind");
  if (!Object.hasOwn(root, key)) return isWazaEval(root) ? "waza" : "config";
  return (["Task", "Eval", "Agent"] as const).find((each) => each === kind);
}

/** Keys that only the `config` of a waza eval has; a config has no `config`, and that of an Eval none of these. */
const wazaConfigKeys = [
  "trials_per_task",
  "timeout_seconds",
  "executor",
  "fail_fast",
  "max_attempts",
  "max_workers",
  "workers",
  "judge_model",
  "group_by",
  "skill_directories",
  "required_skills",
  "mcp_servers",
  "mcp_server_lifetime",
];
/** Keys of a waza eval that no config has; beside one of them it also has tasks. */
const wazaRootKeys = ["config", "skill", "metrics", "tasks_from", "mcp_servers", "mcp_mocks"];
/** Keys that no waza eval has. */
const configKeys = ["server", "servers", "workflows", "toolHealthSuites"];

export function hasSome(object: Root, keys: readonly string[]): boolean {
  return keys.some((key) => Object.hasOwn(object, key));
}

function isWazaEval(root: Root): boolean {
  if (hasSome(root, configKeys)) return false;
  if (hasSome(asObject(root["config"]), wazaConfigKeys)) return true;
  return hasSome(root, wazaRootKeys) && hasSome(root, ["tasks", "tasks_from"]);
}

/** Whether a document is a Task, Eval or Agent of one of the older forms, which are read leniently. */
export function isOlderForm(root: Root): boolean {
  const kind = documentKind(root);
  if (kind === undefined || kind === "config" || kind === "waza") return false;
  const [, version] = memberOf(root, "apiVersion");
  return typeof version !== "string" || !version.startsWith("mcp-eval/");
}

/** Reads a JSON file's text; `lenient`: with comments and trailing commas, as editors have it. Throws SyntaxProblems. */
export function jsonDocument(source: SourceText, { lenient = false } = {}): ConfigDocument {
  let tree: Node | undefined;
  const text = lenient ? plainJson(source.text) : source.text;
  return {
    value: parseJson(text),
    source,
    locate: locateIn(source, (path) => offsetsIn((tree ??= parseTree(text)), path)),
  };
}

/** JSON with blanks in the place of comments and of commas that nothing follows, so that offsets stay. */
function plainJson(text: string): string {
  const { lineComment, blockComment, lineBreak, blank, closeBrace, closeBracket } = jsonToken;
  const scanner = createScanner(text);
  const characters = text.split("");
  let comma: number | undefined;
  const next = (): number => scanner.scan();
  for (let token = next(); token !== jsonToken.endOfText; token = next()) {
    const start = scanner.getTokenOffset();
    if (token === lineComment || token === blockComment)
      for (let index = start; index < start + scanner.getTokenLength(); index += 1) {
        if (!/[\r\n]/.test(characters[index] ?? "")) characters[index] = " ";
      }
    else if (token === lineBreak || token === blank) continue;
    else {
      if ((token === closeBrace || token === closeBracket) && comma !== undefined) characters[comma] = " ";
      comma = token === jsonToken.comma ? start : undefined;
    }
  }
  return characters.join("");
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
const maxDuplicates = 100;

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
    if (open.length === maxFileDepth) fail({ offset, message: `nested deeper than ${maxFileDepth} levels` });
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
        if (duplicates.length === maxDuplicates) throw new SyntaxProblems(duplicates);
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

/**
 * Reads a YAML file's text. Tasks, Evals and Agents of the older forms are read leniently, with notes on what that changed; so is
 * everything with `lenient`. Throws SyntaxProblems.
 */
export async function yamlDocument(source: SourceText, { lenient = false } = {}): Promise<ConfigDocument> {
  const { readYaml } = await import("../../base/parse-yaml.ts");
  const { value, find, notes, problems } = readYaml(source.text, lenient || isOlderForm);
  if (problems.length > 0) throw new SyntaxProblems(problems);
  const placed = notes.map(({ offset, message }) => {
    const line = offset === undefined ? "" : `:${source.location(offset).line}:`;
    return `${source.file}${line} ${message}`;
  });
  return { value, source, locate: locateIn(source, find), notes: placed };
}

/** Reads a TOML file's text. Throws SyntaxProblems. */
export async function tomlDocument(source: SourceText): Promise<ConfigDocument> {
  const { parse, TomlError } = await import("smol-toml");
  try {
    return valueDocument(parse(source.text), source.file);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const { line, column, message } = error;
    const before = source.text.split("\n").slice(0, line - 1);
    const offset = before.reduce((sum, each) => sum + each.length + 1, 0) + column - 1;
    // The first line says what is wrong; the others show the place.
    const [what = ""] = message.split("\n");
    throw new SyntaxProblems([{ offset, message: what.replace("Invalid TOML document: ", "") }]);
  }
}

/** An error for one problem of a file, with the lines around it. */
export function fileError(problem: Problem, { locate, source }: Placed, file: string): McpvalsError {
  const { code, message, hint } = problem;
  const location = locate(problem) ?? { file };
  const diagnostic = withoutUndefined({ code, message, location, hint, frame: source?.frame(location) });
  return new McpvalsError(code, message, { diagnostics: [diagnostic] });
}

/** A document whose parts have places. */
interface Placed {
  readonly locate: Locate;
  /** Absent when a program made the document, so that no text stands for its parts. */
  readonly source?: SourceText;
}

/** Maximum number of problems that are shown with the lines around them. */
const maxFrames = 100;

/** The problems of all files that were read, in the order in which they were found. */
export class FileProblems {
  /** Keyed by code, message and location, to report duplicates once. */
  readonly #diagnostics = new Map<unknown, Diagnostic>();
  readonly #sources = new Map<string, SourceText>();
  #cause: unknown;

  get found(): boolean {
    return this.#diagnostics.size > 0;
  }

  /** Adds problems; the lines around those in its file are taken from the text, also of later ones. */
  add(diagnostics: readonly Diagnostic[], source?: SourceText): void {
    if (source !== undefined) this.#sources.set(source.file, source);
    for (const diagnostic of diagnostics) {
      const { code, message, location } = diagnostic;
      const key = location === undefined ? diagnostic : JSON.stringify([code, message, location]);
      if (!this.#diagnostics.has(key)) this.#diagnostics.set(key, diagnostic);
    }
  }

  /** Adds problems of a document. */
  addPlaced(problems: readonly Problem[], { locate, source }: Placed): void {
    this.add(placeProblems(problems, locate), source);
  }

  /** Adds what an error of kind `usage` stands for, at `place` if it does not say where. Throws any other one. */
  addError(error: unknown, place?: SourceLocation): void {
    if (!(error instanceof McpvalsError) || error.kind !== "usage") throw error;
    const { code, message, details } = error;
    this.#cause ??= error.cause;
    const {
      location = place,
      hint,
      diagnostics = [withoutUndefined({ code, message, location, hint })],
    } = details;
    this.add(diagnostics);
  }

  /** Throws one McpvalsError for all problems, without anything secret; returns when there are none. */
  throwIfAny(secrets: readonly Secret[] = []): void {
    const error = this.asError(secrets);
    if (error !== undefined) throw error;
  }

  /** Throws one McpvalsError for all problems, to which those of a document that was refused are added. */
  refuse(diagnostics: readonly Diagnostic[], source?: SourceText): never {
    this.add(diagnostics, source);
    throw this.asError([]) ?? new Error("a document was refused without a problem");
  }

  /** One McpvalsError for all problems, without anything secret; undefined when there are none. */
  asError(secrets: readonly Secret[]): McpvalsError | undefined {
    if (!this.found) return undefined;
    const redact = createRedactor(secrets);
    const values = secrets.map((secret) => secret.value);
    const framed = [...this.#diagnostics.values()].map((diagnostic, index) => {
      const { location, frame = location && this.#sources.get(location.file)?.frame(location) } = diagnostic;
      const shown = frame === undefined || index >= maxFrames ? undefined : maskSecrets(frame, values);
      return withoutUndefined({ ...redact(diagnostic), frame: shown });
    });
    return failureOf(framed, this.#cause);
  }
}

/**
 * A document's value as plain JSON of a size and depth that can be worked with; undefined, with the reason among the
 * problems, when it is not. `subject` is what the document is, for messages.
 */
export function plainDocument(
  document: ConfigDocument,
  subject: string,
  problems: FileProblems,
): Json | undefined {
  const found: Problem[] = [];
  const json = readJson(document.value, { subject, problems: found, text: (text) => text });
  problems.addPlaced(found, document);
  return found.length === 0 ? json : undefined;
}
