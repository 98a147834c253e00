import { packageName } from "../../base/version.ts";
import { maxFileBytes, maxYamlBytes } from "../../base/limits.ts";
import { graderKinds } from "../../graders/kinds.ts";
import { realpathSync, statSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { basename, dirname, extname, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { codeOf, McpvalsError, messageOf, type SourceLocation } from "../../base/error.ts";
import { didYouMean, suggestion } from "../../base/did-you-mean.ts";
import { asList, asObject, asText, memberOf, withoutUndefined } from "../../base/json.ts";
import { taskApiVersion } from "../../model/task.ts";
import { type LoadContext, displayPath } from "../environment.ts";
import {
  type ConfigDocument,
  type DocumentKind,
  documentKind,
  failureOf,
  fileError,
  FileProblems,
  jsonDocument,
  hasSome,
  type Root,
  SourceText,
  SyntaxProblems,
  tomlDocument,
  valueDocument,
  yamlDocument,
} from "./document.ts";
import {
  configExtensions,
  expandGlob,
  isGlob,
  pathKind,
  pathsOfPattern,
  repositoryOf,
  type Source,
} from "../sources.ts";
import { FileTooLargeError, importModule, readRegularFile } from "../../base/files.ts";
import type { GraderTypes } from "../../graders/declared.ts";
import { type Locate, problem } from "../../base/problem.ts";
import { withDeadline } from "../../process/deadline.ts";
import { maskSecrets } from "../secrets.ts";

/** A file that was read, and what it says it is. */
export interface OpenedFile {
  readonly kind: DocumentKind;
  /** Absolute, as it was named: links in it are not resolved. */
  readonly path: string;
  /** The file as messages name it. */
  readonly shown: string;
  readonly document: ConfigDocument;
}

export interface TaskFile {
  /** Absolute, as it was named: links in it are not resolved. */
  readonly path: string;
  /** Where the links lead to. */
  readonly realPath: string;
  /** Absolute path of the repository that it belongs to, as far as the file or folder that was named shows. */
  readonly repository: string;
  readonly document: ConfigDocument;
}

/** A task that was read from a path. */
export function taskFile(path: string, repository: string, document: ConfigDocument): TaskFile {
  return { path, realPath: realpathSync.native(path), repository, document };
}

/** Leaves the first of the files that are the same behind their links. */
export function withoutRepeats(files: readonly TaskFile[]): readonly TaskFile[] {
  const seen = new Set<string>();
  return files.filter(({ realPath }) => seen.size < seen.add(realPath).size);
}

export interface OpenedSources {
  readonly tasks: readonly TaskFile[];
  /** Files that were named and are no tasks. */
  readonly others: readonly (OpenedFile & { readonly kind: Exclude<DocumentKind, "Task"> })[];
  /** Of files that are not taken as tasks. */
  readonly notes: readonly string[];
  /** What is wrong with files that could not be read. */
  readonly problems: FileProblems;
}

/** Reads the files that sources lead to. Throws what is wrong with a single file; what is wrong among several is collected. */
export async function openSources(
  sources: readonly Source[],
  loadContext: LoadContext,
): Promise<OpenedSources> {
  const problems = new FileProblems();
  const tasks: TaskFile[] = [];
  const others: OpenedSources["others"][number][] = [];
  const notes: string[] = [];
  for (const source of sources) {
    if (source.kind === "search") {
      const { cwd } = loadContext;
      const found = await readTasks(source.paths, { cwd, repository: repositoryOf(source.dir), problems });
      if (found.tasks.length === 0 && !found.isBroken) problems.addError(noTasksIn(source.shown, found));
      for (const task of found.tasks) tasks.push(task);
      for (const note of [...found.notes, ...found.others]) notes.push(note);
      continue;
    }
    try {
      const { kind, path, ...file } = await openFile(source.path, loadContext);
      if (kind === "Task") tasks.push(taskFile(path, repositoryOf(dirname(path)), file.document));
      else others.push({ kind, path, ...file });
    } catch (error) {
      if (sources.length === 1) throw error;
      problems.addError(error);
    }
  }
  return { tasks, others, notes, problems };
}

async function openFile(path: string, { cwd, timeoutMs, signal }: LoadContext): Promise<OpenedFile> {
  const shown = displayPath(cwd, path);
  const document = await readDocument(path, { shown, timeoutMs, signal });
  // What a program gives is always a config.
  const root = asObject(document.source === undefined ? undefined : document.value);
  const kind = documentKind(root);
  if (kind === undefined) throw unknownKind(document, shown, root);
  if (kind === "config" && isTaskExport(root)) throw exportedTask(shown);
  if (kind === "config" && Object.hasOwn(root, "mcpServers") && !hasSome(root, keysBesideServers)) {
    const message = `${shown} has the servers of an MCP client, and nothing to run`;
    const hint = `See what is wrong with them: npx mcpvals check ${shown}. Or pass it along with tasks or an Eval: npx mcpvals run TASKS --mcp-config ${shown}. In a config its table is servers.`;
    const details = { code: "config/nothing-to-run", at: "key", hint } as const;
    throw fileError(problem(["mcpServers"], message, details), document, shown);
  }
  return { kind, path, shown, document };
}

/** Keys beside which `mcpServers` is a misspelt key of a config. */
const keysBesideServers = [
  "server",
  "servers",
  "mocks",
  "variants",
  "workflows",
  "toolHealthSuites",
  "tasks",
];

function noTasksIn(shown: string, { notes, others }: ReadTasks): McpvalsError {
  const near = [...notes, ...others];
  const some = near.length > 10 ? [...near.slice(0, 10), `and ${near.length - 10} more`] : near;
  const usual =
    "A task is a .yaml, .yml or .json file with kind: Task; node_modules and hidden folders are not searched.";
  return new McpvalsError("config/not-found", `there is no config file in ${shown}, and no task`, {
    hint: near.length === 0 ? usual : `${some.join("; ")}. ${usual}`,
  });
}

/** Whether a document was made by `mcpvals task export`. */
export function isTaskExport(root: Root): boolean {
  return asText(root["schema"])?.startsWith("mcpvals.task/") === true;
}

/** The error for an exported task in the place of a task; `shown` is the file in messages. */
export function exportedTask(shown: string): McpvalsError {
  const message = `${shown} is an exported task, made for other tools to read`;
  return new McpvalsError("config/invalid-value", message, {
    location: { file: shown },
    hint: "Run the file that it was made from.",
  });
}

/** The error for a document whose kind is none that there is. */
function unknownKind(document: ConfigDocument, shown: string, root: Root): McpvalsError {
  const [key, kind] = memberOf(root, "kind");
  const message = `${shown} has an unknown kind`;
  const hint = `${suggestion(String(kind), ["Task", "Eval", "Agent"], "kinds")} A config has no kind.`;
  return fileError(problem([key], message, { hint }), document, shown);
}

/** The tasks among some files. */
export interface ReadTasks {
  readonly tasks: readonly TaskFile[];
  /** Of files that are not taken as tasks although their authors may think so, in the order of the files. */
  readonly notes: readonly string[];
  /** Of mcpvals' own files that are not run with tasks. */
  readonly others: readonly string[];
  /** Whether something is wrong with one of the files. */
  readonly isBroken: boolean;
}

export interface ReadTasksOptions {
  /** Absolute path of the folder that messages name files from. */
  readonly cwd: string;
  readonly repository: string;
  readonly problems: FileProblems;
}

/**
 * Reads the tasks among some files, in the order of the files; those of other kinds are left out. What is wrong with a
 * task goes to `problems`, and so does a file without content: it may be a task that was lost. Only what a task has among its
 * fixtures may be empty.
 */
async function readTasks(
  paths: readonly string[],
  { cwd, repository, problems }: ReadTasksOptions,
): Promise<ReadTasks> {
  const read = await readAll(paths, cwd);
  const tasks = read.flatMap(({ path, found }) =>
    found?.kind === "task" ? [taskFile(path, repository, found.document)] : [],
  );
  // What tasks have copied into their workspaces, as far as their files say some.
  const fixtures = tasks.flatMap(({ path, document }) =>
    asList(asObject(asObject(document.value)["spec"])["fixtures"]).flatMap((fixture) => {
      const relative = asText(fixture);
      return relative === undefined ? [] : [resolve(dirname(path), relative)];
    }),
  );
  const errors = read.flatMap(({ path, found, error }) => {
    if (found === undefined) return [error];
    const isFixture = fixtures.some((fixture) => path === fixture || path.startsWith(fixture + sep));
    return found.kind === "empty" && !isFixture ? [emptyFile(displayPath(cwd, path))] : [];
  });
  for (const error of errors) problems.addError(error);
  const notesOf = (kind: FoundFile["kind"]): string[] =>
    read.flatMap(({ found }) => (found?.kind === kind && "note" in found ? [found.note] : []));
  return { tasks, notes: notesOf("almost"), others: notesOf("other"), isBroken: errors.length > 0 };
}

function emptyFile(shown: string): McpvalsError {
  return new McpvalsError("config/invalid-value", `${shown} is empty, so it is not a task`, {
    location: { file: shown },
    hint: "Write the task, remove the file, or name the tasks by a glob that leaves it out.",
  });
}

interface ReadFile {
  readonly path: string;
  /** Absent when it could not be read. */
  readonly found?: FoundFile;
  readonly error?: unknown;
}

const filesAtOnce = 32;

/** Reads files, some at a time, and gives what came of each in the order of the files. */
async function readAll(paths: readonly string[], cwd: string): Promise<readonly ReadFile[]> {
  const results: ReadFile[] = [];
  const waiting = paths.entries();
  const work = async (): Promise<void> => {
    for (const [index, path] of waiting) {
      results[index] = await readTask(path, displayPath(cwd, path)).then(
        (found) => ({ path, found }),
        (error: unknown) => ({ path, error }),
      );
    }
  };
  await Promise.all(Array.from({ length: Math.min(filesAtOnce, paths.length) }, work));
  return results;
}

/**
 * Reads the tasks that paths and globs of a config lead to, each file once. A pattern without any task is a problem:
 * a typing mistake must not turn tasks off.
 */
export async function tasksOfPatterns(
  patterns: readonly string[],
  { dir, cwd, problems }: Omit<ReadTasksOptions, "repository"> & { readonly dir: string },
): Promise<{ readonly files: readonly TaskFile[]; readonly notes: readonly string[] }> {
  const repository = repositoryOf(dir);
  const files: TaskFile[] = [];
  const notes = new Set<string>();
  for (const pattern of patterns) {
    const paths = pathsOfPattern(pattern, dir);
    const found = await readTasks(paths, { cwd, repository, problems });
    if (found.tasks.length === 0 && !found.isBroken) {
      const message = `tasks: no file of kind Task is at ${JSON.stringify(pattern)}`;
      const hint =
        paths.length === 0
          ? "Paths and globs start from the config's folder; a whole folder is written FOLDER/**/*.yaml."
          : "A task has kind: Task. An eval whose tasks are those of waza is recognised by its config, skill or metrics, or mcp_servers.";
      problems.add([{ code: "config/not-found", message, hint }]);
    }
    for (const file of found.tasks) files.push(file);
    for (const note of found.notes) notes.add(note);
  }
  return { files: withoutRepeats(files), notes: [...notes] };
}

/** Which files a task set of an Eval names. */
export type SetFiles = { readonly path: string } | { readonly glob: string };

interface SetPlace {
  readonly files: SetFiles;
  /** Its place among the sets of the Eval. */
  readonly index: number;
  /** Absolute path of the Eval's folder. */
  readonly dir: string;
  readonly source: SourceText | undefined;
  readonly location?: SourceLocation | undefined;
}

/** Reads the tasks of a task set of an Eval. A set without any task is a problem. */
export async function tasksOfSet(
  { files, index, dir, source, location }: SetPlace,
  options: ReadTasksOptions,
): Promise<ReadTasks> {
  const found = await readTasks(pathsOfSet(files, dir), options);
  if (found.tasks.length > 0 || found.isBroken) return found;
  const [what, written] = "glob" in files ? ["the glob", files.glob] : ["the path", files.path];
  const message = `config.taskSets[${index}]: no file of kind Task is at ${what} ${written}`;
  const hint =
    "path" in files && isGlob(files.path)
      ? `A path names one file; for several write glob: ${files.path}`
      : "Paths and globs start from the eval's folder. A task set without a task would check nothing.";
  options.problems.add(
    [withoutUndefined({ code: "config/not-found" as const, message, hint, location })],
    source,
  );
  return found;
}

function pathsOfSet(files: SetFiles, dir: string): readonly string[] {
  if ("glob" in files) return expandGlob(files.glob, { cwd: dir, dialect: "go" });
  const path = resolve(dir, files.path);
  return pathKind(path) === "file" ? [path] : [];
}

/** What a file of a folder or glob is. */
type FoundFile =
  | { readonly kind: "task"; readonly document: ConfigDocument }
  /** `foreign`: not a task, such as a manifest; `empty`: only blanks, comments and YAML markers. */
  | { readonly kind: "foreign" | "empty" }
  /** No task, although its author may think so, or it is no place for it; `note` says why, and names the file. */
  | { readonly kind: "almost" | "other"; readonly note: string };

/** A line that holds more than a blank, a comment, `null` or a mark of YAML. */
const something = /^(?!(?:---)?[ \t\u{feff}]*(?:~|null)?[ \t]*(?:#.*)?$|\.\.\.[ \t]*$|%)/mu;
/** One of the words that a task cannot do without. */
const mayBeOurs = /kind|verify|prompt|metadata|mcp-eval|mcpvals/i;

/**
 * Reads a file that may be a task. Throws McpvalsError `config/unreadable` and `config/syntax` for a task that is broken,
 * and `config/invalid-value` for one whose kind is misspelt.
 */
async function readTask(file: string, shown: string): Promise<FoundFile> {
  if (basename(file).startsWith("mcp-eval.config."))
    return { kind: "other", note: `${shown} is a config; run it by itself` };
  try {
    const source = readDataText(file, shown);
    if (!something.test(source.text)) return { kind: "empty" };
    if (!mayBeOurs.test(source.text)) return { kind: "foreign" };
    return kindOf(await parseData(source, endingOf(file)), shown);
  } catch (error) {
    if (!(error instanceof McpvalsError) || error.code === "config/invalid-value") throw error;
    if (await looksLikeTask(file)) throw error;
    return { kind: "foreign" };
  }
}

/** The API group of another tool, such as `tekton.dev/v1`. */
const foreignVersion = /^[^/]*\.[^/]*\//;

function kindOf(document: ConfigDocument, shown: string): FoundFile {
  const root = asObject(document.value);
  const [, version] = memberOf(root, "apiVersion");
  // A group with one of these words may be a misspelt one of mcpvals.
  if (typeof version === "string" && foreignVersion.test(version) && !/mcp|eval/i.test(version))
    return { kind: "foreign" };
  const kind = documentKind(root);
  if ((kind === undefined || kind === "config") && [document.value, ...Object.values(root)].some(hasTasks))
    return {
      kind: "almost",
      note: `${shown} has tasks in a list, which are not taken; a task is a file of its own`,
    };
  const isOurs = version === taskApiVersion;
  switch (kind) {
    case "Task":
      return { kind: "task", document };
    case "Eval":
      return { kind: "other", note: `${shown} is an Eval; run it by itself` };
    case "waza":
      return { kind: "other", note: `${shown} is an eval of waza; run it by itself` };
    case "config":
      if (isTaskExport(root))
        return { kind: "other", note: `${shown} is an exported task; run the file that it was made from` };
      if (!isOurs && !isLikeTask(root)) return { kind: "foreign" };
      return { kind: "almost", note: `${shown} has no kind, so it is not taken as a task; add kind: Task` };
    case undefined: {
      const written = memberOf(root, "kind")[1];
      const isNear = typeof written === "string" && didYouMean(written, ["Task"]) !== undefined;
      if (isOurs || isNear) throw unknownKind(document, shown, root);
      return { kind: "foreign" };
    }
    case "Agent":
      return { kind: "foreign" };
  }
}

/** Whether a value is a list with tasks. */
function hasTasks(list: unknown): boolean {
  return asList(list).some((item) => {
    const { kind, apiVersion } = asObject(item);
    return kind === "Task" && !(typeof apiVersion === "string" && foreignVersion.test(apiVersion));
  });
}

/** Whether a document without a kind has what a task has. */
function isLikeTask(root: Root): boolean {
  const parts = ["spec", "steps"].map((key) => asObject(memberOf(root, key)[1]));
  if (
    parts.some((part) =>
      hasSome(
        part,
        ["verify", "prompt"].map((key) => memberOf(part, key)[0]),
      ),
    )
  )
    return true;
  return hasSome(asObject(root["metadata"]), ["name"]) && !Object.hasOwn(root, "apiVersion");
}

const headBytes = 64 * 1024;

/** Whether a file that cannot be read as it should begins like a task; what cannot be read at all might be one. */
async function looksLikeTask(file: string): Promise<boolean> {
  try {
    // Opening a pipe could wait without end.
    if (!(await stat(file)).isFile()) return false;
    await using handle = await open(file);
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(headBytes) });
    // Without the zeros of UTF-16, as some editors write it.
    const head = buffer.toString("latin1", 0, bytesRead).replaceAll("\0", "");
    return /\bkind["']?\s*:\s*["']?Task\b|\bapiVersion["']?\s*:\s*["']?mcp-eval\//i.test(head);
  } catch (cause) {
    if (codeOf(cause) === undefined) throw cause;
    return true;
  }
}

/** Largest files that are read, in bytes: more would take longer than anyone wants to wait. */
const largest = { json: maxFileBytes, yaml: maxYamlBytes, program: 16 * 1024 * 1024 };

export interface ReadDocumentOptions {
  /** The file as messages name it. */
  readonly shown: string;
  /** Longest that a config that is a program may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads a file of any kind that may hold a config, a task or an Eval. Throws McpvalsError: `config/unreadable`,
 * `config/syntax`, `config/invalid-value`.
 */
async function readDocument(file: string, options: ReadDocumentOptions): Promise<ConfigDocument> {
  const { shown } = options;
  const ending = endingOf(file);
  if (["json", "yaml", "yml"].includes(ending)) return readData(file, shown);
  if (configExtensions.every((extension) => extension !== ending)) {
    const endings = configExtensions.map((extension) => `.${extension}`).join(", ");
    throw new McpvalsError("config/unreadable", `${shown} has an ending that no config has`, {
      location: { file: shown },
      hint: `A config file ends in ${endings}; a task or an Eval in .yaml, .yml or .json.`,
    });
  }
  const source = readText(file, shown, largest.program);
  const { value, imports } = await loadModule(file, { ...options, source });
  return { ...valueDocument(value, shown), imports };
}

interface ReadOptions {
  /** JSON with comments and trailing commas, and YAML as the older forms are read. */
  readonly lenient?: boolean;
}

/** Reads a file of data: JSON or TOML when its name says so, else YAML. Throws as `readDocument` does. */
export async function readData(
  file: string,
  shown: string,
  options: ReadOptions = {},
): Promise<ConfigDocument> {
  return parseData(readDataText(file, shown), endingOf(file), options);
}

/** Reads the text of a file of data. Throws McpvalsError `config/unreadable`. */
export function readDataText(file: string, shown: string): SourceText {
  return readText(file, shown, endingOf(file) === "json" ? largest.json : largest.yaml);
}

/** Makes a document of a text of data. Throws McpvalsError `config/syntax`. */
export async function parseData(
  source: SourceText,
  ending: string,
  options: ReadOptions = {},
): Promise<ConfigDocument> {
  try {
    if (ending === "json") return jsonDocument(source, options);
    if (ending === "toml") return await tomlDocument(source);
    return await yamlDocument(source, options);
  } catch (error) {
    throw error instanceof SyntaxProblems ? error.in(source) : error;
  }
}

/** The ending of a file's name, in lower case, without its dot. */
export function endingOf(file: string): string {
  return extname(file).slice(1).toLowerCase();
}

/** Reads a text file of at most `limit` bytes; `shown` is its name in messages. Throws McpvalsError `config/unreadable`. */
function readText(file: string, shown: string, limit: number): SourceText {
  const bytes = readBytes(file, shown, limit);
  try {
    return new SourceText(shown, new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    const location = { file: shown, ...placeOfBadByte(bytes) };
    throw new McpvalsError("config/unreadable", `${shown} is not UTF-8 text`, { location, cause });
  }
}

function readBytes(file: string, shown: string, limit: number): Uint8Array {
  try {
    return readRegularFile(file, limit);
  } catch (cause) {
    const reason = messageOf(cause);
    const hint = "Split it, or make it with a program in a .ts or .js file; JSON may be larger than YAML.";
    throw new McpvalsError("config/unreadable", `${shown} cannot be read: ${reason}`, {
      location: { file: shown },
      cause,
      ...(cause instanceof FileTooLargeError ? { hint } : {}),
    });
  }
}

/** Line and column, in bytes, of the first byte that a lenient reading replaces. */
function placeOfBadByte(bytes: Uint8Array): { readonly line: number; readonly column: number } {
  const replaced = Buffer.from(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
  const before = bytes.subarray(
    0,
    replaced.findIndex((byte, index) => byte !== bytes[index]),
  );
  const lines = Buffer.from(before).toString("latin1").split("\n");
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
}

/** In bytes. */
const maxGraderFileLength = 1024 * 1024;

/** The types of graders for a file of a folder; `locate` tells where its parts are. */
export function graderTypesAt(dir: string, locate?: Locate): GraderTypes {
  const look = (path: string): "file" | "nothing" =>
    statSync(resolve(dir, path), { throwIfNoEntry: false })?.isFile() === true ? "file" : "nothing";
  const readText = (path: string): string =>
    readRegularFile(resolve(dir, path), maxGraderFileLength).toString("utf8");
  return { types: graderKinds, dir, look, readText, locate };
}

interface LoadModuleOptions {
  /** The file as messages name it. */
  readonly shown: string;
  readonly source: SourceText;
  /** Longest that loading and, for a function, calling may take together, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** What a config that is a program gives. */
interface LoadedModule {
  readonly value: unknown;
  /** Absolute paths of the files that it imports, directly or not, except those of packages. */
  readonly imports: readonly string[];
}

/**
 * Runs a TypeScript or JavaScript config and gives what it exports: its default export, or the one named `config`; a
 * function is called. Node runs the file itself where it can; what it refuses (enums, imports without an ending) goes
 * through jiti. Throws `config/syntax` with the place, and `config/unreadable`.
 */
async function loadModule(file: string, options: LoadModuleOptions): Promise<LoadedModule> {
  const { shown, timeoutMs: ms, signal, source } = options;
  const files = new Set([file]);
  const evaluate = async (): Promise<unknown> => {
    try {
      const exported = exportOf(await importModule(file, source.text, files));
      if (exported === undefined) {
        throw new McpvalsError("config/unreadable", `${shown} exports no config`, {
          location: { file: shown },
          hint: `Give it a default export: export default defineConfig({ … }). To check a server's program: npx mcpvals check -- node ${shown}`,
        });
      }
      return typeof exported === "function" ? ((await exported()) as unknown) : exported;
    } catch (cause) {
      throw cause instanceof McpvalsError ? cause : moduleFailure(cause, file, options);
    }
  };
  const value = await withDeadline(evaluate, {
    ms,
    ...withoutUndefined({ signal }),
    onTimeout: () =>
      new McpvalsError("config/unreadable", `${shown} did not give its config within ${ms / 1000} s`, {
        location: { file: shown },
        hint: "Something that the file waits for never ends.",
      }),
  });
  return { value, imports: [...files].filter((path) => path !== file) };
}

interface ConfigModule {
  readonly default?: unknown;
  readonly config?: unknown;
}

function exportOf(module: unknown): unknown {
  const { default: exported, config } = module as ConfigModule;
  const isCompiled = typeof exported === "object" && exported !== null && "__esModule" in exported;
  if (!isCompiled) return exported ?? config;
  // A module that was compiled to CommonJS has its default export one level deeper.
  const inner = exported as ConfigModule;
  return inner.default ?? inner.config ?? config;
}

/** The error for a config that is a program and did not run to its end; `cause` is what it threw. */
function moduleFailure(cause: unknown, file: string, { shown, source }: LoadModuleOptions): McpvalsError {
  const error = cause instanceof Error ? cause : undefined;
  // jiti's message: `ParseError: MESSAGE`, then `FILE:LINE:COLUMN` with columns that count from 0.
  const syntax = /^ParseError: ([^\n]*)\n\s*(.+):(\d+):(\d+)\s*$/m.exec(error?.message ?? "");
  if (syntax !== null) {
    const [, message = "", place, line, column] = syntax;
    const at = { line: Number(line), column: Number(column) + 1 };
    const frame = place === file ? source.frame(at) : undefined;
    const location = { file: place === file ? shown : String(place), ...at };
    const masked = frame === undefined ? undefined : maskSecrets(frame);
    const diagnostic = { code: "config/syntax" as const, message: message.trim(), location, frame: masked };
    return failureOf([withoutUndefined(diagnostic)], cause);
  }
  const code = codeOf(error);
  const missing =
    code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND"
      ? /Cannot find (?:package|module) '([^']+)'/.exec(error?.message ?? "")?.[1]
      : undefined;
  if (missing !== undefined) {
    const name = JSON.stringify(missing);
    return new McpvalsError("config/unreadable", `${shown} imports ${name}, which was not found`, {
      location: { file: shown },
      cause,
      hint: /^mcpvals(?:$|\/)/.test(missing)
        ? `mcpvals is not installed beside the config: run npm install --save-dev ${packageName} there, or leave out the import and export a plain object; defineConfig only helps editors.`
        : `Install ${name} beside the config, or fix the import.`,
    });
  }
  const text =
    typeof cause === "string" ? JSON.stringify(cause) : `a value that is not an Error (${typeof cause})`;
  const thrown = error === undefined ? text : `${error.name}: ${error.message}`;
  const location = { file: shown, ...placeIn(error?.stack ?? "", file) };
  return new McpvalsError("config/unreadable", `${shown} threw ${thrown}`, { location, cause });
}

/** The innermost place inside a file that a stack names. */
function placeIn(stack: string, file: string): Pick<SourceLocation, "line" | "column"> {
  const calls = stack.matchAll(/^\s*at .*?((?:file:\/\/)?[^\s()]+):(\d+):(\d+)\)?$/gm);
  for (const [, place = "", line, column] of calls) {
    const path = place.startsWith("file://") ? fileURLToPath(place) : place;
    if (path === file) return { line: Number(line), column: Number(column) };
  }
  return {};
}
