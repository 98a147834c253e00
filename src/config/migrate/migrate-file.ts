import { basename, dirname, extname, resolve } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { parseTask } from "../../core/formats/task/parse-task.ts";
import { environment as readEnvironment, type EnvironmentVariables } from "../environment.ts";
import { FileProblems } from "../file-problems.ts";
import { documentKind, rootMembers } from "../read/document-kind.ts";
import { endingOf, parseData, readDataText } from "../read/read-document.ts";
import { SourceText } from "../read/source-text.ts";
import { completeStdio } from "../server-environment.ts";
import { shownFrom } from "../surroundings.ts";
import { taskFiles } from "../tasks/task-files.ts";
import { type MigratedTask, migrateTask } from "./migrate-task.ts";

export interface MigrateOptions {
  /** Absolute path of the folder that the file is named from. */
  readonly cwd: string;
  /** Whether paths of the task may leave its folder. */
  readonly allowOutside: boolean;
  /** Default: this process's. */
  readonly environment?: EnvironmentVariables;
}

export interface MigratedFile extends MigratedTask {
  /** Absolute. */
  readonly path: string;
  /** The file as messages name it. */
  readonly shown: string;
}

/**
 * Writes the task of a file in the new form, and makes sure that what comes of it loads. Throws McpvalsError of kind `usage`
 * for a file that is no task, or a wrong one.
 */
export async function migrateFile(file: string, options: MigrateOptions): Promise<MigratedFile> {
  const path = resolve(options.cwd, file);
  const shown = shownFrom(options.cwd, path);
  const source = await readDataText(path, shown);
  const place = { path, ...options };
  await check(source, place);
  const files = taskFiles(dirname(path), options);
  const migrated = migrateTask({
    text: source.text,
    shown,
    name: nameOf(path),
    json: endingOf(path) === "json",
    read: (beside) => files.read(beside),
  });
  if (migrated.changed) await check(new SourceText(`${shown} (migrated)`, migrated.text), place);
  return { ...migrated, path, shown };
}

/** A task kept as `FOLDER/task.yaml` is known by its folder. */
function nameOf(path: string): string {
  const stem = basename(path, extname(path));
  return stem === "task" ? basename(dirname(path)) : stem;
}

/** Throws everything that is wrong with the text of a task. */
async function check(
  source: SourceText,
  { path, allowOutside, environment = readEnvironment() }: MigrateOptions & { readonly path: string },
): Promise<void> {
  const dir = dirname(path);
  const document = await parseData(source, endingOf(path));
  if (documentKind(rootMembers(document.value)) !== "Task") {
    throw new McpvalsError("config/invalid-value", `${source.file} is no task: its kind is not Task`, {
      location: { file: source.file },
    });
  }
  const problems = new FileProblems();
  const parsed = parseTask(document.value, {
    file: path,
    dir,
    locate: document.locate,
    files: taskFiles(dir, { allowOutside }),
    servers: [],
    // One that is not set here may be set where the task runs.
    variables: { ...environment, ...variablesIn(source.text) },
    completeStdio: (server) => completeStdio(server, { dir, environment, overrides: {} }),
    inheritEnv: [],
    extensions: [],
  });
  if (!parsed.ok) problems.add(parsed.diagnostics, source);
  problems.throwIfAny([]);
}

function variablesIn(text: string): EnvironmentVariables {
  return Object.fromEntries([...text.matchAll(/\benv\.(\w+)/g)].map(([, name = ""]) => [name, ""]));
}
