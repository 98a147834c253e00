import type { Diagnostic } from "../../errors/error.ts";
import type { CompleteStdio } from "../config/server.ts";
import type { ProvidedServers } from "../config/server-tables.ts";
import type { EvalExtensions } from "../extension/eval-extensions.ts";
import { asObject, type KeyPath } from "../json.ts";
import type { ServerSpec, Task } from "../model.ts";
import type { Locate } from "../problem.ts";
import type { ExtensionUse } from "./extension-uses.ts";
import type { StepView } from "./view-steps.ts";
import { type TaskView, walkViews } from "./view-task.ts";

/** The files that a task may see. */
export interface TaskFiles {
  /** What a path, relative to the task's folder, leads to; `outside` when it leaves the folder and may not. */
  look(path: string): "file" | "folder" | "nothing" | "outside";
  /** The text of a file; undefined when it cannot be read as text. */
  read(path: string): string | undefined;
  /** Whether a path leads out of the task's folder, be it through a link. */
  leaves(path: string): boolean;
}

export interface ParseTaskOptions {
  /** Absolute path of the task's file. */
  readonly file: string;
  /** Absolute path of its folder. */
  readonly dir: string;
  /** Absolute path of the folder that files of the older forms may lie in besides the task's own; absent: only there. */
  readonly repository?: string;
  readonly locate: Locate;
  readonly files: TaskFiles;
  /** Names of the servers that the eval provides; the task may add its own. */
  readonly servers: readonly string[];
  /** What the eval provides in full; absent where it is not known. */
  readonly provided?: ProvidedServers;
  /** Variables of the command line and the shell, for checking {env.NAME} at load. */
  readonly variables: Readonly<Record<string, string>>;
  readonly completeStdio: CompleteStdio;
  /** Makes the path of a file absolute. Default: it is left as written. */
  readonly resolvePath?: (path: string) => string;
  /** Shell variables that the eval passes on to the processes of tasks. */
  readonly inheritEnv: readonly string[] | true;
  /** What the eval says of extensions; absent where the eval is not known. */
  readonly extensions?: EvalExtensions;
}

export type ParsedTask =
  | {
      readonly ok: true;
      readonly task: Task;
      /** The task's own servers. */
      readonly servers: Readonly<Record<string, ServerSpec>>;
      /** All servers that it starts, by variant of the eval; absent when there are none. */
      readonly variants?: Readonly<Record<string, Readonly<Record<string, ServerSpec>>>>;
      /** What is valid but does not do what its author may think. */
      readonly notes: readonly string[];
      /** Its steps that need extensions. */
      readonly extensions: readonly ExtensionUse[];
    }
  | { readonly ok: false; readonly diagnostics: readonly Diagnostic[] };

/** A note that has a place in the file. */
export interface PlacedNote {
  readonly message: string;
  readonly path: KeyPath;
  /** The text inside the value that the note is about. */
  readonly text?: string;
}

/** Writes notes with their lines, in the order of the file, each once. */
export function placeNotes(notes: readonly PlacedNote[], locate: Locate): string[] {
  const placed = notes.map(({ message, ...place }) => ({
    message,
    line: locate({ ...place, at: "value" })?.line,
  }));
  const written = placed
    .toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0))
    .map(({ message, line }) => (line === undefined ? message : `line ${line}: ${message}`));
  return [...new Set(written)];
}

/** What is valid but does not do what its author may think: one sentence each. */
export function taskNotes(view: TaskView): string[] {
  const { setup, verify, cleanup } = view.steps;
  const used = new Set([...walkViews([...setup, ...verify, ...cleanup])].map(extensionOf));
  const unused = view.imports.filter((alias) => !used.has(alias));
  const stopping = cleanup.filter(({ body }) => asObject(body)["continueOnError"] === false);
  return [
    ...unused.map((alias) => `the import ${JSON.stringify(alias)} is not used`),
    ...stopping.map(({ id }) => `${id}: continueOnError: false has no effect; all of cleanup always runs`),
  ];
}

function extensionOf({ kind, first, body }: StepView): unknown {
  return kind === "extension" ? asObject(body)["package"] : first;
}
