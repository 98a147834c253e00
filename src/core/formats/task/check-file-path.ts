import { formatKeyPath, type KeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import type { TaskFiles } from "./task-options.ts";

export interface FileWanted {
  readonly files: TaskFiles;
  /** `file`: it must be one; `any`: a file or a folder; `inside`: it only must not lead out of the task's folder. */
  readonly wanted: "file" | "any" | "inside";
}

/** What is wrong with a path in a task, relative to its folder. */
export function checkFilePath(file: string, path: KeyPath, { files, wanted }: FileWanted): Problem[] {
  const where = formatKeyPath(path);
  const named = JSON.stringify(file);
  switch (files.look(file)) {
    case "outside":
      return [
        {
          code: "task/outside",
          message: `${where}: ${named} lies outside the task's folder`,
          path,
          at: "value",
          hint: "Keep a task's files beside it, or allow the path with --allow-outside.",
        },
      ];
    case "nothing": {
      if (wanted === "inside") return [];
      const what = wanted === "file" ? "file" : "file or folder";
      const message = `${where}: there is no ${what} ${named} in the task's folder`;
      return [{ code: "config/unknown-reference", message, path, at: "value" }];
    }
    case "folder": {
      if (wanted !== "file") return [];
      const message = `${where}: ${named} is a folder, not a file`;
      return [{ code: "config/invalid-value", message, path, at: "value" }];
    }
    case "file":
      return [];
  }
}
