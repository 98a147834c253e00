import { maxFileBytes } from "../base/limits.ts";
import { codeOf, McpvalsError, messageOf } from "../base/error.ts";
import { existsSync, lstatSync, realpathSync, renameSync, type Stats, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { applyEdits, type JSONPath, modify, parse, type ParseError, printParseErrorCode } from "jsonc-parser";
import { parse as parseToml, stringify as writeToml, TomlError } from "smol-toml";
import { asList, asObject, type JsonObject } from "../base/json.ts";
import { type ClientAdapter, program, typedHttp, typedProgram } from "./programs/preset.ts";
import { type AgentPreset, type McpClient, presetNamed, presets } from "./programs/presets.ts";
import { readJsonText } from "../base/read-json.ts";
import type { Emit } from "../model/event.ts";
import { isInside, makeFolder, readRegularFile } from "../base/files.ts";
import { untilAborted } from "../process/deadline.ts";
import { makeTemporaryFolder } from "../process/folders.ts";
import { livesElsewhere, ownIdentity } from "../process/process-tree.ts";
import { guardUndo, undo, type UndoStep } from "../process/watchdog.ts";
import type { GatewayEndpoint } from "../servers/gateway/endpoint.ts";

type Connect = "http" | "bridge";

/** Config files in a folder, until they are put back. */
export interface WrittenFiles {
  /**
   * Puts the folder back as it was: a user's own files byte for byte, what was not there is removed. Calling it again gives
   * the same promise. Throws McpvalsError `agent/client-config`.
   */
  restore(): Promise<void>;
}

/** One file that is written into a folder. */
interface PlannedFile {
  /** Path in the folder, with slashes. */
  readonly file: string;
  /** There was one, which is kept beside it. */
  readonly replaced: boolean;
  /** The folder that it is in had to be made. */
  readonly madeFolder: boolean;
}

interface Change extends PlannedFile {
  /** Absolute. */
  readonly path: string;
  readonly text: string;
  readonly clients: readonly McpClient[];
}

/** Says, in the folder itself, who has written what into it, for whoever comes after a crash. */
const journalName = ".mcpvals-client-files.json";
const about =
  "mcpvals has written config files into this folder and removes this file when it has put them back. " +
  "If no mcpvals runs any more, the next run in this folder does it.";

/**
 * Writes config files that lead clients to our gateway into a folder, over HTTP unless `connect` says otherwise. A user's own file is merged into, and kept beside it
 * until `restore`. If this process ends before, the watchdog puts it back; where there is none, the next run in the folder.
 * Who writes into a folder of this process's own first has it until `restore`, and others wait.
 *
 * Throws McpvalsError `agent/client-config`, and nothing is changed then: for a file that cannot be read, a link that leads
 * out of the folder, and a folder that another process has; and the signal's reason.
 */
export async function writeClientFiles(
  folder: string,
  clients: readonly McpClient[],
  endpoints: readonly GatewayEndpoint[],
  {
    connect = "http",
    emit,
    signal,
  }: { readonly connect?: Connect; readonly emit: Emit; readonly signal: AbortSignal },
): Promise<WrittenFiles> {
  if (clients.length === 0 || endpoints.length === 0) return { restore: () => Promise.resolve() };
  const real = attempt(`write config files into ${folder}`, () => realpathSync(folder));
  const giveBack = await takeFolder(real, signal);
  try {
    recoverFolder(real);
    // Some clients read the same file.
    const byFile = Map.groupBy(new Set(clients), (client) => clientAdapters[client].file);
    const changes = [...byFile].map(([file, named]) => planChange(real, file, named, endpoints, connect));
    const putBack = applyChanges(real, changes);
    for (const { path, replaced, clients: named } of changes) {
      const action = replaced ? "replaced" : "created";
      for (const client of named) emit({ type: "client_config.written", client, path, action });
    }
    let restoring: Promise<void> | undefined;
    return { restore: () => (restoring ??= Promise.resolve().then(putBack).finally(giveBack)) };
  } catch (error) {
    giveBack();
    throw error;
  }
}

function planChange(
  folder: string,
  file: string,
  clients: readonly McpClient[],
  endpoints: readonly GatewayEndpoint[],
  connect: Connect,
): Change {
  const path = pathOf(folder, file);
  const hasFolder = exists(folder, dirname(path), "folder");
  if (hasFolder && look(backupOf(path)) !== undefined)
    throw clientConfigError(`${backupOf(path)} is in the way`, {
      hint: "It is what an earlier run kept and could not put back: rename it to what it was, or remove it.",
    });
  const replaced = hasFolder && exists(folder, path, "file");
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const own = replaced
    ? attempt(`read ${path}`, () => decoder.decode(readRegularFile(path, maxFileBytes)))
    : "";
  const text = attempt(
    `add servers to ${path}`,
    () =>
      clients
        .map((client) => clientAdapters[client])
        .reduce(
          (merged, adapter) => mergeServers(merged, serverEntries(endpoints, adapter, connect), adapter),
          own,
        ),
    "Mend the file, or move it away; it was left as it is.",
  );
  return { file, replaced, madeFolder: !hasFolder, path, text, clients };
}

/** Gives what takes the changes back. Those that were made are taken back when one cannot be made. */
function applyChanges(folder: string, changes: readonly Change[]): () => void {
  const files = changes.map(({ file, replaced, madeFolder }) => ({ file, replaced, madeFolder }));
  const steps = undoSteps(folder, files);
  const journal = `${JSON.stringify({ about, ...ownIdentity(), files }, undefined, 2)}\n`;
  attempt(`write into ${folder}`, () => {
    try {
      writeFileSync(join(folder, journalName), journal, { flag: "wx", mode: 0o600 });
    } catch (error) {
      throw codeOf(error) === "EEXIST" ? otherRun(folder) : error;
    }
  });
  const guard = guardUndo(steps);
  attempt(`write config files into ${folder}`, () => {
    try {
      for (const { path, text, replaced, madeFolder } of changes) {
        if (madeFolder) makeFolder(dirname(path));
        if (replaced) renameSync(path, backupOf(path));
        // The address of the gateway is a secret.
        writeFileSync(path, text, { flag: "wx", mode: 0o600 });
      }
    } catch (error) {
      undo(steps);
      guard.release();
      throw error;
    }
  });
  return () => {
    const missing = changes
      .filter(({ replaced, path }) => replaced && !existsSync(backupOf(path)))
      .map(({ path }) => backupOf(path));
    attempt(
      `put back the config files in ${folder}`,
      () => {
        undo(steps);
        if (missing[0] !== undefined) throw new Error(`${missing[0]} is gone`);
      },
      "Files named *.mcpvals-backup are the user's own; rename them to what they were.",
    );
    guard.release();
  };
}

/** How to put a folder back as it was; `folder` is absolute. */
function undoSteps(folder: string, files: readonly PlannedFile[]): readonly UndoStep[] {
  const steps = files.map(({ file, replaced }): UndoStep => {
    const path = pathOf(folder, file);
    return replaced ? { kind: "move-back", from: backupOf(path), to: path } : { kind: "remove-file", path };
  });
  const made = files.filter(({ madeFolder }) => madeFolder);
  return [
    ...steps,
    ...made.map(({ file }): UndoStep => ({ kind: "remove-folder", path: dirname(pathOf(folder, file)) })),
    { kind: "remove-file", path: join(folder, journalName) },
  ];
}

/**
 * Puts back what an earlier process that was killed has left in a folder. Throws McpvalsError `agent/client-config` when the
 * process lives, and for a folder that leads elsewhere. `folder` is absolute and without links.
 */
export function recoverFolder(folder: string): void {
  const path = join(folder, journalName);
  if (look(path) === undefined) return;
  const text = attempt(`read ${path}`, () => readRegularFile(path, maxFileBytes).toString("utf8"));
  // A journal that was cut off was written before anything else.
  const { pid, started, files: listed } = asObject(readJsonText(text).value);
  if (typeof pid === "number" && Number.isInteger(pid) && pid > 0) {
    const owner = { pid, ...(typeof started === "number" ? { started } : {}) };
    if (livesElsewhere(owner)) throw otherRun(folder, pid);
  }
  // A folder can come from anywhere, so that only files that are ours to write are believed to be ours.
  const known = new Set(Object.values(clientAdapters).map(({ file }) => file));
  const files = asList(listed)
    .map(asObject)
    .flatMap(({ file, replaced, madeFolder }) =>
      typeof file === "string" && known.has(file)
        ? [{ file, replaced: replaced === true, madeFolder: madeFolder === true && file.includes("/") }]
        : [],
    );
  // Whoever made the folder may have put a link there, and files outside of it are not ours.
  const outside = files
    .map(({ file }) => dirname(join(folder, file)))
    .find((place) => existsSync(place) && !isInside(folder, realpathSync(place)));
  if (outside !== undefined)
    throw clientConfigError(
      `${outside} is a link that leads out of ${folder}, and ${path} names files in it`,
      { hint: `Somebody else wrote ${journalName}: remove it.` },
    );
  attempt(
    `put back what an earlier run left in ${folder}`,
    () => undo(undoSteps(folder, files)),
    `Files named *.mcpvals-backup in it are the ones to keep; then remove ${journalName}.`,
  );
}

function otherRun(folder: string, pid?: number): McpvalsError {
  const who = pid === undefined ? "another run of mcpvals" : `another run of mcpvals (process ${pid})`;
  return clientConfigError(`${who} has its config files in ${folder}`, {
    hint:
      "Wait until it has ended, or give each run a folder of its own (cwd). If that process is something else, rename " +
      `the files *.mcpvals-backup to what they were and remove ${journalName}.`,
  });
}

const last = new Map<string, Promise<void>>();

/**
 * Waits until no other trial of this process has a folder, and takes it; what is returned gives it back. Rejects with the
 * signal's reason when it aborts first.
 */
async function takeFolder(folder: string, signal: AbortSignal): Promise<() => void> {
  const { promise: done, resolve } = Promise.withResolvers<void>();
  const before = last.get(folder) ?? Promise.resolve();
  const ours = before.then(() => done);
  last.set(folder, ours);
  void ours.finally(() => last.get(folder) === ours && last.delete(folder));
  try {
    await untilAborted(before, signal);
  } catch (error) {
    resolve();
    throw error;
  }
  return resolve;
}

/** Where a user's own file is kept. */
function backupOf(path: string): string {
  return `${path}.mcpvals-backup`;
}

function pathOf(folder: string, file: string): string {
  return join(folder, ...file.split("/"));
}

/**
 * Whether a file or folder is there. Throws McpvalsError for anything else, and for a link that leads out of `folder`, which is
 * absolute and without links.
 */
function exists(folder: string, path: string, kind: "file" | "folder"): boolean {
  const found = look(path);
  if (found === undefined) return false;
  if (!found.isSymbolicLink()) {
    if (kind === "file" ? found.isFile() : found.isDirectory()) return true;
    throw clientConfigError(`${path} is not a ${kind}`);
  }
  if (!existsSync(path)) throw clientConfigError(`${path} is a link that leads nowhere`);
  if (isInside(folder, realpathSync(path))) return true;
  throw clientConfigError(`${path} is a link that leads out of ${folder}`, {
    hint: "Files outside the folder are not touched; put a copy in the place of the link, or choose another folder.",
  });
}

function look(path: string): Stats | undefined {
  return attempt(`look at ${path}`, () => {
    try {
      return lstatSync(path);
    } catch (error) {
      if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return undefined;
      throw error;
    }
  });
}

/**
 * The text of a file with `mcpServers` that leads to our gateway: in the form of the program whose preset is named, where it
 * has such a table, otherwise in that of Claude Code, which others read too.
 */
export function mcpConfigText(
  endpoints: readonly GatewayEndpoint[],
  connect: Connect = "http",
  preset?: string,
): string {
  const own = presetNamed(preset)?.clientFile;
  const adapter = own?.key === "mcpServers" ? own : clientAdapters["claude-code"];
  const mcpServers = serverEntries(endpoints, adapter, connect);
  return `${JSON.stringify({ mcpServers }, undefined, 2)}\n`;
}

/**
 * Writes {@link mcpConfigText} outside of every folder that an agent works in, for programs that take the path of such a
 * file. `path` is absolute; `remove` may be called again. Throws McpvalsError `agent/client-config`.
 */
export async function writeMcpConfigFile(
  endpoints: readonly GatewayEndpoint[],
  connect?: Connect,
  preset?: string,
): Promise<{ readonly path: string; readonly remove: () => void }> {
  const what = "write a file for {mcpConfig}";
  const folder = await makeTemporaryFolder("client").catch((cause: unknown) => {
    throw cannot(what, cause);
  });
  const path = join(folder, "mcp.json");
  const steps: readonly UndoStep[] = [
    { kind: "remove-file", path },
    { kind: "remove-folder", path: folder },
  ];
  const guard = guardUndo(steps);
  const text = mcpConfigText(endpoints, connect, preset);
  attempt(what, () => writeFileSync(path, text, { flag: "wx", mode: 0o600 }));
  return {
    path,
    remove: () => {
      undo(steps);
      guard.release();
    },
  };
}

/** Does a step; what it throws becomes an McpvalsError that says what cannot be done. */
function attempt<T>(what: string, step: () => T, hint?: string): T {
  try {
    return step();
  } catch (cause) {
    throw cannot(what, cause, hint);
  }
}

function cannot(what: string, cause: unknown, hint?: string): McpvalsError {
  if (cause instanceof McpvalsError) return cause;
  const reason = messageOf(cause);
  return clientConfigError(`cannot ${what}: ${reason}`, { cause, ...(hint === undefined ? {} : { hint }) });
}

function clientConfigError(
  message: string,
  details: { readonly hint?: string; readonly cause?: unknown } = {},
): McpvalsError {
  return new McpvalsError("agent/client-config", message, details);
}

// The formats of config files of clients.

const ofPresets = Object.fromEntries(
  Object.entries(presets).map(([name, { clientFile }]) => [name, clientFile]),
) as Record<AgentPreset, ClientAdapter>;

/**
 * The clients that config files are written for. Some read theirs only in a trusted folder: Codex, Copilot and Gemini ask
 * their user first, or need an argument or a variable.
 */
export const clientAdapters: Readonly<Record<McpClient, ClientAdapter>> = {
  ...ofPresets,
  vscode: {
    file: ".vscode/mcp.json",
    format: "json",
    key: "servers",
    http: typedHttp,
    bridge: typedProgram,
  },
  cursor: {
    file: ".cursor/mcp.json",
    format: "json",
    key: "mcpServers",
    http: (url) => ({ url }),
    bridge: program,
  },
};

type Entries = Readonly<Record<string, JsonObject>>;

/**
 * Puts servers into a client's file, in the place of those with the same names; all else in it stays. `text` is empty for
 * a file that is not there. Throws an Error that says what is wrong with the text.
 */
export function mergeServers(text: string, entries: Entries, { format, key }: ClientAdapter): string {
  return format === "json" ? mergeJson(text, entries, key) : mergeToml(text, entries, key);
}

const byteOrderMark = /^\uFEFF/;

function mergeJson(written: string, entries: Entries, key: string): string {
  const text = written.replace(byteOrderMark, "");
  const start = text.trim() === "" ? "{}\n" : text;
  const problems: ParseError[] = [];
  const document: unknown = parse(start, problems, { allowTrailingComma: true });
  const [problem] = problems;
  if (problem !== undefined) {
    const before = start.slice(0, problem.offset).split("\n");
    const column = (before.at(-1) ?? "").length + 1;
    throw new Error(`${printParseErrorCode(problem.error)} at line ${before.length}, column ${column}`);
  }
  requireObject(document, "the file");
  const servers = Object.hasOwn(document, key) ? document[key] : {};
  requireObject(servers, JSON.stringify(key));
  return Object.entries(entries).reduce((edited, [name, entry]) => set(edited, [key, name], entry), start);
}

function set(text: string, path: JSONPath, value: JsonObject): string {
  // Formatting takes time by the square of what is in the line, and a line as long as that is not text for readers anyway.
  const isForReaders = text.split("\n").every(({ length }) => length <= maxLineLength);
  const formattingOptions = { insertSpaces: true, tabSize: 2, eol: "\n" };
  return applyEdits(text, modify(text, path, value, isForReaders ? { formattingOptions } : {}));
}

const maxLineLength = 10_000;

type Table = Record<string, unknown>;

function requireObject(value: unknown, what: string): asserts value is Table {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return;
  throw new Error(`${what} is not an object`);
}

/** Whole numbers are kept apart from others, since they are different things in TOML. */
const numbers = { integersAsBigInt: true } as const;

function mergeToml(written: string, entries: Entries, key: string): string {
  const text = written.replace(byteOrderMark, "");
  const document: Table = readToml(text);
  const servers = Object.hasOwn(document, key) ? document[key] : {};
  requireObject(servers, key);
  const others = Object.entries(document).filter(([name]) => name !== key);
  const ours = writeToml({ [key]: entries });
  const added = readToml(ours)[key] as Table;
  const merged: Table = Object.fromEntries([...others, [key, { ...servers, ...added }]]);
  const appended = text === "" ? ours : `${text.replace(/\n?$/, "\n")}\n${ours}`;
  return means(appended, merged) ? appended : writeToml(merged, { numbersAsFloat: true });
}

/** The error's own message shows lines of the file, which can have secrets. */
function readToml(text: string): Table {
  try {
    return parseToml(text, numbers);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [what = "it is not TOML"] = error.message.split("\n");
    throw new Error(`${what} at line ${error.line}, column ${error.column}`, { cause: error });
  }
}

/** Text that is added keeps comments, but it cannot replace a table, nor add to one that is written in one line. */
function means(text: string, document: Table): boolean {
  try {
    // Clones are without the differences that prototypes make.
    return isDeepStrictEqual(structuredClone(parseToml(text, numbers)), structuredClone(document));
  } catch {
    return false;
  }
}

/** How a client's file declares servers, by name. */
function serverEntries(
  endpoints: readonly GatewayEndpoint[],
  adapter: Pick<ClientAdapter, "http" | "bridge">,
  connect: "http" | "bridge",
): Entries {
  return Object.fromEntries(
    endpoints.map(({ server, url, bridge }) => [
      server,
      connect === "http" ? adapter.http(url) : adapter.bridge(bridge),
    ]),
  );
}
