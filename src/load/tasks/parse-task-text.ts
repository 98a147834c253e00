import { dirname } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import type { ServerSpec, Task } from "../../core/formats/model.ts";
import { parseTask, type TaskFiles } from "../../core/formats/task/parse-task.ts";
import { environment as readEnvironment, type EnvironmentVariables } from "../environment.ts";
import { FileProblems } from "../file-problems.ts";
import { documentKind, rootMembers } from "../read/document.ts";
import { endingOf, parseData } from "../read/read-document.ts";
import { exportedTask, isTaskExport } from "../read/read-task.ts";
import { repositoryOf } from "../sources/find-sources.ts";
import type { SourceText } from "../read/source-text.ts";
import { filesOfTask } from "./task-files.ts";

/** How a task is read by itself. */
export interface TaskOptions {
  /** Absolute path of the folder that the file is named from. */
  readonly cwd: string;
  /** Whether paths of the task may leave its folder. */
  readonly allowOutside: boolean;
  /** Default: this process's. */
  readonly environment?: EnvironmentVariables;
}

/** A task by itself, without what an eval around it would give. */
export interface TaskAlone {
  readonly task: Task;
  /** Its own servers, as the file says them: folders relative to the task's, and no environment but their own. */
  readonly servers: Readonly<Record<string, ServerSpec>>;
  readonly notes: readonly string[];
  /** The document of the file. */
  readonly document: unknown;
  /** The files that it may see. */
  readonly files: TaskFiles;
}

/**
 * Reads the text of one task. Variables need not be set: they may be where the task runs. Throws one McpvalsError of kind
 * `usage` for everything that is wrong.
 */
export async function parseTaskText(
  source: SourceText,
  /** Absolute path of the task's file. */
  path: string,
  { allowOutside, environment = readEnvironment() }: Omit<TaskOptions, "cwd">,
): Promise<TaskAlone> {
  const dir = dirname(path);
  const document = await parseData(source, endingOf(path));
  const root = rootMembers(document.value);
  if (isTaskExport(root)) throw exportedTask(source.file);
  if (documentKind(root) !== "Task") {
    throw new McpvalsError("config/invalid-value", `${source.file} is not a task: its kind is not Task`, {
      location: { file: source.file },
    });
  }
  const problems = new FileProblems();
  const files = filesOfTask({ path, repository: repositoryOf(dir), document }, { allowOutside });
  const parsed = parseTask(document.value, {
    file: path,
    dir,
    locate: document.locate,
    ...files,
    servers: [],
    variables: { ...environment, ...variablesIn(source.text) },
    completeStdio: ({ cwd = ".", env }) => ({ cwd, env: { ...env } }),
    inheritEnv: [],
  });
  if (parsed.ok) return { ...parsed, document: document.value, files: files.files };
  problems.add(parsed.diagnostics, source);
  problems.throwIfAny([]);
  throw new Error("a task without problems was refused");
}

function variablesIn(text: string): EnvironmentVariables {
  return Object.fromEntries([...text.matchAll(/\benv\.(\w+)/g)].map(([, name = ""]) => [name, ""]));
}
