import { type FSWatcher, readdirSync, watch as watchFolder } from "node:fs";
import { basename, dirname, extname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { emitKeypressEvents } from "node:readline";
import { homedir } from "node:os";
import { McpvalsError, renderError } from "../base/error.ts";
import { didNotPass } from "../report/result.ts";
import type { RunResult } from "../model/result.ts";
import type { LoadedConfig } from "../formats/assemble-eval.ts";
import { askPerson, workingFolder, writeError } from "./terminal.ts";
import type { Json } from "../base/json.ts";
import type { ServerSpec } from "../model/server.ts";
import type { Task } from "../model/task.ts";
import { effectiveServers } from "../model/plan.ts";
import { pathKind } from "../formats/sources.ts";

/** What one run under watch is to do. */
export interface WatchedSelection {
  /** Names of tasks; absent: all. */
  readonly names?: ReadonlySet<string>;
  /** A name or glob of tasks, on top of that. */
  readonly pattern?: string;
}

/** What one run under watch gives. */
export interface WatchedOutcome {
  readonly code: number;
  readonly result: RunResult;
}

export interface Keys {
  /** The next key; never settles after `signal` aborts. */
  next(signal: AbortSignal): Promise<string>;
  /** Asks for a line of text. */
  ask(question: string): Promise<string>;
}

export interface WatchOptions {
  /** Runs once. Calls `onLoaded` when it knows its files. Throws McpvalsError. */
  readonly execute: (
    selection: WatchedSelection,
    onLoaded: (loaded: LoadedConfig) => void,
  ) => Promise<WatchedOutcome>;
  readonly signal: AbortSignal;
  /** Whether tasks can be run one by one. */
  readonly byTask: boolean;
  /** Absent: there is no terminal, and only changes of files lead to another run. */
  readonly keys?: Keys | undefined;
}

/**
 * Runs again whenever a file changes that the run depends on, or a key asks for it, until the signal aborts or `q` is pressed. Returns the
 * exit code of the last run; 130 after an interruption. Throws what the first run throws before its files are known.
 */
export async function watch({ execute, signal, byTask, keys }: WatchOptions): Promise<number> {
  using files = new FileWatcher();
  const failed = new Set<string>();
  const interrupted = new Promise<string>((done) =>
    signal.addEventListener("abort", () => done("q"), { once: true }),
  );
  let isKnown = false;
  let selection: WatchedSelection = {};
  let code = 0;
  for (;;) {
    try {
      const outcome = await execute(selection, (loaded) => {
        isKnown = true;
        files.follow(watchedFiles(loaded));
      });
      code = outcome.code;
      for (const trial of outcome.result.trials) failed.delete(trial.task);
      for (const trial of outcome.result.trials) if (didNotPass(trial)) failed.add(trial.task);
    } catch (error) {
      if (signal.aborted || !isKnown || !(error instanceof McpvalsError)) throw error;
      writeError(renderError(error));
      code = 2;
    }
    if (signal.aborted) return 130;
    if (keys === undefined && files.isIdle) {
      writeError("Nothing to watch: no file of the servers or tasks is known.");
      return code;
    }
    const next = await nextSelection({ files, failed, selection, interrupted, byTask, keys });
    if (signal.aborted) return 130;
    if (next === "quit") return code;
    selection = next;
  }
}

interface Waiting extends Pick<WatchOptions, "byTask" | "keys"> {
  readonly files: FileWatcher;
  readonly failed: ReadonlySet<string>;
  readonly selection: WatchedSelection;
  /** Resolves to the key that ends the watch. */
  readonly interrupted: Promise<string>;
}

/** Waits for a change or a key that leads to another run. */
async function nextSelection({
  files,
  failed,
  selection,
  interrupted,
  byTask,
  keys,
}: Waiting): Promise<WatchedSelection | "quit"> {
  const help = byTask
    ? "Keys: a all, f failed, p filter by name, enter again, q quit."
    : "Keys: enter again, q quit.";
  writeError(`\nWaiting for changes.${keys === undefined ? "" : ` ${help}`}`);
  const { pattern } = selection;
  const filter = pattern === undefined ? {} : { pattern };
  for (;;) {
    const waiting = new AbortController();
    const key = await Promise.race([
      files.changed(waiting.signal),
      ...(keys === undefined ? [] : [keys.next(waiting.signal)]),
      interrupted,
    ]);
    waiting.abort();
    if (typeof key !== "string") {
      writeError(`Changed: ${[...key.paths].map((path) => relative(workingFolder(), path)).join(", ")}`);
      return key.tasks === undefined ? filter : { names: key.tasks, ...filter };
    }
    if (!byTask && (key === "f" || key === "p")) continue;
    switch (key) {
      case "q":
        return "quit";
      case "a":
        return {};
      case "return":
      case "enter":
        return selection;
      case "f":
        if (failed.size > 0) return { names: new Set(failed) };
        writeError("Nothing failed.");
        break;
      case "p": {
        const given = (await keys?.ask("Name or glob of tasks (empty: all): "))?.trim() ?? "";
        return given === "" ? {} : { pattern: given };
      }
      default:
        break;
    }
  }
}

/** What has changed, and which tasks that concerns. */
interface Change {
  readonly paths: ReadonlySet<string>;
  /** Absent: all. */
  readonly tasks?: ReadonlySet<string>;
}

/** Changes that come closer together are one, in milliseconds: editors and compilers write files in several steps. */
const quietMs = 150;
/** Folders that are watched below those of servers. */
const maxFolders = 2000;
/** Files that a program consists of. What it writes itself, such as data and logs, has other endings. */
const sourceFile = /^\.(?:[cm]?[jt]sx?|py|rb|php|go|rs|java|kt|kts|scala|cs|fs|swift|ex|exs|lua|wasm|jar)$/;
const ignoredFolder = /^(?:\..*|node_modules|__pycache__)$/;

/** Watches files and folders. What changes is kept until it is asked for. */
class FileWatcher implements Disposable {
  /** By path; undefined: all tasks. */
  readonly #files = new Map<string, ReadonlySet<string> | undefined>();
  /** Of source files, by folder. */
  readonly #folders = new Map<string, ReadonlySet<string> | undefined>();
  readonly #watchers = new Map<string, FSWatcher>();
  readonly #changed = new Set<string>();
  #wake: () => void = () => undefined;

  follow(paths: readonly WatchedPath[]): void {
    this.#files.clear();
    this.#folders.clear();
    for (const { path, kind, tasks } of paths) {
      if (kind === "file") addTasks(this.#files, path, tasks);
      else for (const folder of foldersIn(path)) addTasks(this.#folders, folder, tasks);
    }
    const wanted = new Set([
      ...this.#folders.keys(),
      ...[...this.#files.keys()].map((file) => dirname(file)),
    ]);
    for (const [folder, watcher] of this.#watchers) {
      if (wanted.has(folder)) continue;
      watcher.close();
      this.#watchers.delete(folder);
    }
    for (const folder of wanted) if (!this.#watchers.has(folder)) this.#watch(folder);
  }

  /** The next change, after which nothing has changed for a moment; never settles after `signal` aborts. */
  async changed(signal: AbortSignal): Promise<Change> {
    let isQuiet = false;
    while (!isQuiet) {
      isQuiet = await new Promise<boolean>((done) => {
        const timer = this.#changed.size === 0 ? undefined : setTimeout(() => done(true), quietMs);
        this.#wake = () => {
          clearTimeout(timer);
          done(false);
        };
      });
    }
    // What has changed is for whoever asks next.
    if (signal.aborted) return new Promise(() => undefined);
    const paths = new Set(this.#changed);
    this.#changed.clear();
    const concerned = [...paths].map((path) => this.#tasksOf(path));
    if (concerned.some((tasks) => tasks === undefined)) return { paths };
    return { paths, tasks: new Set(concerned.flatMap((tasks) => [...(tasks ?? [])])) };
  }

  get isIdle(): boolean {
    return this.#watchers.size === 0;
  }

  [Symbol.dispose](): void {
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  #watch(folder: string): void {
    try {
      const watcher = watchFolder(folder, (_, name) => {
        if (name !== null) this.#take(join(folder, name));
      });
      // A folder that was removed is watched again when it is there in the next run.
      watcher.on("error", () => {
        watcher.close();
        this.#watchers.delete(folder);
      });
      this.#watchers.set(folder, watcher);
    } catch {
      // A folder that cannot be watched is one less; keys still run everything.
    }
  }

  #take(path: string): void {
    const isSource =
      this.#folders.has(dirname(path)) && sourceFile.test(extname(path)) && !basename(path).startsWith(".");
    if (!isSource && !this.#files.has(path)) return;
    this.#changed.add(path);
    this.#wake();
  }

  #tasksOf(path: string): ReadonlySet<string> | undefined {
    return this.#files.has(path) ? this.#files.get(path) : this.#folders.get(dirname(path));
  }
}

function addTasks(
  map: Map<string, ReadonlySet<string> | undefined>,
  path: string,
  tasks: readonly string[] | undefined,
): void {
  const known = map.get(path);
  const isAll = tasks === undefined || (map.has(path) && known === undefined);
  map.set(path, isAll ? undefined : new Set([...(known ?? []), ...tasks]));
}

/** A folder and those below it, without the ones that hold nothing of the user's own. */
function foldersIn(root: string): readonly string[] {
  const found = [root];
  // The list grows while it is read.
  for (const folder of found) {
    try {
      for (const entry of readdirSync(folder, { withFileTypes: true }))
        if (entry.isDirectory() && !ignoredFolder.test(entry.name) && found.length < maxFolders)
          found.push(join(folder, entry.name));
    } catch {
      // A folder that cannot be read is not watched below.
    }
  }
  return found;
}

/** The keys of the terminal; undefined when there is none. */
export function terminalKeys(): Keys | undefined {
  const { stdin, stderr } = process;
  if (!stdin.isTTY || !stderr.isTTY) return undefined;
  return {
    next: (signal) =>
      new Promise((done) => {
        emitKeypressEvents(stdin);
        const end = (): void => {
          stdin.off("keypress", onKey);
          stdin.setRawMode(false);
          stdin.pause();
        };
        const onKey = (_: string, { name = "", ctrl = false }: { name?: string; ctrl?: boolean }): void => {
          end();
          signal.removeEventListener("abort", end);
          // A terminal in raw mode sends the key, and no signal.
          done(ctrl && (name === "c" || name === "d") ? "q" : name);
        };
        stdin.setRawMode(true);
        stdin.on("keypress", onKey);
        stdin.resume();
        signal.addEventListener("abort", end, { once: true });
      }),
    ask: askPerson,
  };
}

/** A file or folder whose change calls for another run. */
export interface WatchedPath {
  readonly path: string;
  /** Of a folder, the source files in it and below it. */
  readonly kind: "file" | "folder";
  /** Names of the tasks that a change concerns; absent: all. */
  readonly tasks?: readonly string[];
}

/**
 * The files that an eval depends on: its own file with the modules that it imports, those of its tasks and that their graders name, and the programs of servers that are
 * files of the user's own, with the folders that these are in.
 */
export function watchedFiles({ file, imports, dir, eval: spec }: LoadedConfig): readonly WatchedPath[] {
  const { tasks, servers, variants = [undefined] } = spec;
  const ofTask = (task: Task): WatchedPath[] => {
    const own = task.portable === undefined ? [] : [{ path: task.portable.file, kind: "file" } as const];
    const ofGraders = (task.graders ?? []).flatMap(({ config, dir: folder }) => settingFiles(config, folder));
    const started = variants.flatMap((variant) => Object.values(effectiveServers(spec, task, variant?.name)));
    return [...own, ...ofGraders, ...started.flatMap((server) => programFiles(server, dir))].map(
      (watched) => ({
        ...watched,
        tasks: [task.name],
      }),
    );
  };
  return [
    ...[...(file === undefined ? [] : [file]), ...imports].map((path) => ({ path, kind: "file" }) as const),
    ...(tasks.length > 0
      ? tasks.flatMap(ofTask)
      : Object.values(servers).flatMap((server) => programFiles(server, dir))),
  ];
}

/** The files that settings of a grader name: every text in them that leads to one. */
function settingFiles(settings: Json, dir: string): WatchedPath[] {
  if (typeof settings === "object" && settings !== null)
    return Object.values(settings).flatMap((each) => settingFiles(each, dir));
  if (typeof settings !== "string") return [];
  const path = resolve(dir, settings);
  return !path.includes("\0") && pathKind(path) === "file" ? [{ path, kind: "file" }] : [];
}

/** The program of a server and the files among its arguments, with the folders of those that the user may be writing. */
function programFiles(server: ServerSpec, dir: string): WatchedPath[] {
  if (server.transport !== "stdio") return [];
  const { command, args, cwd } = server;
  const named = [...(/[/\\]/.test(command) ? [command] : []), ...args].map((path) => resolve(cwd, path));
  const files = named.filter(
    (path) => !path.split(sep).includes("node_modules") && pathKind(path) === "file",
  );
  return files.flatMap((path, index): WatchedPath[] => {
    const folder = dirname(path);
    const isTool =
      index === 0 && path === resolve(cwd, command) && !isBelow(path, dir) && !isBelow(path, cwd);
    const isWide = folder === dirname(folder) || isBelow(homedir(), folder);
    return [{ path, kind: "file" }, ...(isTool || isWide ? [] : [{ path: folder, kind: "folder" } as const])];
  });
}

function isBelow(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way.split(sep)[0] !== ".." && !isAbsolute(way));
}
