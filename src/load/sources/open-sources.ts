import { dirname } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { FileProblems } from "../file-problems.ts";
import { type ConfigDocument, type DocumentKind, documentKind, rootMembers } from "../read/document.ts";
import { exportedTask, isMcpConfig, isTaskExport, mcpConfigAlone, unknownKind } from "../read/read-task.ts";
import { readDocument } from "../read/read-document.ts";
import { shownFrom, type LoadContext } from "../environment.ts";
import { type ReadTasks, readTasks, type TaskFile, taskFile } from "../tasks/read-tasks.ts";
import { repositoryOf, type Source } from "./find-sources.ts";

/** A file that was read, and what it says it is. */
export interface OpenedFile {
  readonly kind: DocumentKind;
  /** Absolute, as it was named: links in it are not resolved. */
  readonly path: string;
  /** The file as messages name it. */
  readonly shown: string;
  readonly document: ConfigDocument;
}

/** A file that is no task. */
export type OtherFile = OpenedFile & { readonly kind: Exclude<DocumentKind, "Task"> };

export interface OpenedSources {
  readonly tasks: readonly TaskFile[];
  /** Files that were named and are no tasks. */
  readonly others: readonly OtherFile[];
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
  const { cwd } = loadContext;
  const problems = new FileProblems();
  const tasks: TaskFile[] = [];
  const others: OtherFile[] = [];
  const notes: string[] = [];
  for (const source of sources) {
    if (source.kind === "search") {
      const broken = new FileProblems();
      const found = await readTasks(source.paths, {
        cwd,
        repository: repositoryOf(source.dir),
        problems: broken,
      });
      if (found.tasks.length === 0 && !broken.found) broken.addError(noTasks(source, found));
      problems.addAll(broken);
      for (const task of found.tasks) tasks.push(task);
      for (const note of [...found.notes, ...found.others]) notes.push(note);
      continue;
    }
    const opened = await openFile(source.path, { loadContext, problems, alone: sources.length === 1 });
    if (opened === undefined) continue;
    const { kind, path, document } = opened;
    if (kind === "Task") tasks.push(taskFile(path, repositoryOf(dirname(path)), document));
    else others.push({ ...opened, kind });
  }
  return { tasks, others, notes, problems };
}

interface Opening {
  readonly loadContext: LoadContext;
  readonly problems: FileProblems;
  readonly alone: boolean;
}

async function openFile(
  path: string,
  { loadContext, problems, alone }: Opening,
): Promise<OpenedFile | undefined> {
  try {
    return await readFile(path, loadContext);
  } catch (error) {
    if (alone) throw error;
    problems.addError(error);
    return undefined;
  }
}

async function readFile(path: string, loadContext: LoadContext): Promise<OpenedFile> {
  const { cwd, timeoutMs, signal } = loadContext;
  const shown = shownFrom(cwd, path);
  const document = await readDocument(path, {
    shown,
    timeoutMs,
    ...(signal === undefined ? {} : { signal }),
  });
  // What a program gives is always a config.
  const root = document.source === undefined ? new Map<string, unknown>() : rootMembers(document.value);
  const kind = documentKind(root);
  if (kind === undefined) throw unknownKind(document, shown, root);
  if (kind === "config" && isTaskExport(root)) throw exportedTask(shown);
  if (kind === "config" && isMcpConfig(root)) throw mcpConfigAlone(document, shown);
  return { kind, path, shown, document };
}

function noTasks({ shown }: Extract<Source, { kind: "search" }>, { notes, others }: ReadTasks): McpvalsError {
  const near = [...notes, ...others];
  const shownNear = near.length > 10 ? [...near.slice(0, 10), `and ${near.length - 10} more`] : near;
  const usual =
    "A task is a .yaml, .yml or .json file with kind: Task; node_modules and hidden folders are not searched.";
  return new McpvalsError("config/not-found", `there is no config file in ${shown}, and no task`, {
    hint: near.length === 0 ? usual : `${shownNear.join("; ")}. ${usual}`,
  });
}
