import { McpvalsError } from "../../base/error.ts";
import type { CompleteStdio, ServerSpec } from "../../model/server.ts";
import type { ProvidedServers } from "../config/server-tables.ts";
import type { EvalExtensions, ExtensionUse } from "../../model/extension.ts";
import type { GraderTypes } from "../../graders/declared.ts";
import { type KeyPath, withoutUndefined } from "../../base/json.ts";
import type { GraderSpec, Task } from "../../model/task.ts";
import {
  afterPath,
  type Locate,
  maxProblems,
  type ParseResult,
  type Problem,
  problemAt,
  type ProblemDetails,
} from "../../base/problem.ts";

export interface TaskFiles {
  /** What a path, relative to the task's folder, leads to; `outside` when it leaves the folder and may not. */
  look(path: string): "file" | "folder" | "nothing" | "outside";
  /** The text of a file; undefined when it cannot be read as text. */
  read(path: string): string | undefined;
  /** Whether a path leads out of the task's folder, be it through a link. */
  leaves(path: string): boolean;
  /** The path of something at or below a path that cannot be copied: neither a file, a folder nor a link. Absent: there is none. */
  special?(path: string): string | undefined;
}

export interface ParseTaskOptions {
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
  /** What graders can be; absent for a task that declares none. */
  readonly graderTypes?: GraderTypes | undefined;
  /** Graders that the eval has for all tasks; their names are taken. */
  readonly graders?: readonly GraderSpec[];
}

export type ParsedTask = ParseResult<{
  readonly task: Task;
  /** The task's own servers. */
  readonly servers: Readonly<Record<string, ServerSpec>>;
  /** All servers that it starts, by variant of the eval; absent when there are none. */
  readonly variants?: Readonly<Record<string, Readonly<Record<string, ServerSpec>>>>;
  /** What is valid but may not do what its author expects. */
  readonly notes: readonly string[];
  /** Its steps that need extensions. */
  readonly extensions: readonly ExtensionUse[];
}>;

/** A note that has a place in the file. */
export interface PlacedNote {
  readonly message: string;
  readonly path: KeyPath;
  /** The text inside the value that the note is about. */
  readonly text?: string;
}

/** Collects what the checks of a task find, up to {@link maxProblems} of each. */
export class Findings {
  readonly problems: Problem[] = [];
  readonly notes: PlacedNote[] = [];

  get isFull(): boolean {
    return this.problems.length >= maxProblems;
  }

  add(problems: Problem | readonly Problem[]): void {
    for (const each of [problems].flat()) if (!this.isFull) this.problems.push(each);
  }

  /** Adds a problem; its message is the path and what comes `after` it. */
  refuse(path: KeyPath, after: string, details?: ProblemDetails): void {
    this.add(problemAt(path, after, details));
  }

  checksNothing(path: KeyPath, after: string, hint: string): void {
    this.refuse(path, after, { code: "config/checks-nothing", hint });
  }

  /** Adds a note; its message is the path and what comes `after` it. */
  note(path: KeyPath, after: string, text?: string): void {
    if (this.notes.length < maxProblems)
      this.notes.push(withoutUndefined({ message: afterPath(path, after), path, text }));
  }

  /** Refuses a value for which `act` throws a McpvalsError; says whether it did not throw. */
  attempt(path: KeyPath, act: () => unknown): boolean {
    try {
      act();
      return true;
    } catch (error) {
      if (!(error instanceof McpvalsError)) throw error;
      const { code, message, details } = error;
      this.refuse(path, `: ${message}`, { code, hint: details.hint });
      return false;
    }
  }
}
