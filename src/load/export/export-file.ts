import { dirname, resolve } from "node:path";
import { exportTask } from "../../core/formats/task-export/export-task.ts";
import type { TaskExport } from "../../core/formats/task-export/task-export-schema.ts";
import type { EnvironmentVariables } from "../environment.ts";
import { readDataText } from "../read/read-document.ts";
import { shownFrom } from "../surroundings.ts";
import { parseTaskText } from "../tasks/parse-task-text.ts";
import { collectArtifacts } from "./collect-artifacts.ts";

export interface ExportOptions {
  /** Absolute path of the folder that the file is named from. */
  readonly cwd: string;
  /** Whether paths of the task may leave its folder. */
  readonly allowOutside: boolean;
  /** Default: this process's. */
  readonly environment?: EnvironmentVariables;
}

/** Makes one document of the task in a file, with the files that it names. Throws McpvalsError of kind `usage`. */
export async function exportFile(
  file: string,
  options: ExportOptions,
): Promise<{ readonly document: TaskExport; readonly notes: readonly string[] }> {
  const path = resolve(options.cwd, file);
  const dir = dirname(path);
  const source = readDataText(path, shownFrom(options.cwd, path));
  const { task, servers, document, files, notes } = await parseTaskText(source, { path, ...options });
  const collected = collectArtifacts({ task, document, dir, files });
  return {
    document: exportTask(task, { servers, artifacts: collected.artifacts }),
    notes: [...notes, ...collected.notes],
  };
}
