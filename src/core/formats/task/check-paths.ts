import { asObject, asText, formatKeyPath, type KeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import { type Locals, partsOf, type PlacedText, staticText, unknownInPath } from "./check-text.ts";
import type { TaskFiles } from "./task-options.ts";
import type { TaskSource } from "./read-task.ts";

/** Checks the paths of a task outside of its steps. */
export function checkTaskPaths({ file: { spec }, document }: TaskSource, files: TaskFiles): Problem[] {
  const servers = asObject(asObject(document["spec"])["servers"]);
  const folders = Object.entries(servers).flatMap(([name, server]) => {
    const cwd = asText(asObject(server)["cwd"]);
    const path = ["spec", "servers", name, "cwd"];
    return cwd === undefined ? [] : checkPath({ text: cwd, path }, { files, wanted: "inside" });
  });
  return [...folders, ...checkFixtures(spec.fixtures, files)];
}

/** Checks a path with templates, as far as it is known before the task runs. */
export function checkPath(
  { text, path }: PlacedText,
  wanted: FileWanted,
  locals: Locals = new Map(),
): Problem[] {
  const unknown = unknownInPath(text, path, locals);
  if (unknown !== undefined) return unknown;
  const file = staticText(text, locals);
  if (file !== undefined) return checkFilePath(file, path, wanted);
  // Where paths may leave the task's folder, they may leave the workspace.
  return leavesWorkspace(text, locals) && wanted.files.look("..") === "outside" ? [outside(text, path)] : [];
}

/** Whether a path that begins with `{workspace}`, and has no other template, goes up above it. */
function leavesWorkspace(text: string, locals: Locals): boolean {
  const [first, ...rest] = partsOf(text, locals);
  if (typeof first !== "object" || first.root !== "workspace" || locals.has("workspace")) return false;
  if (!rest.every((part) => typeof part === "string")) return false;
  let depth = 0;
  for (const name of rest.join("").split("/")) {
    if (name === "..") depth -= 1;
    else if (name !== "" && name !== ".") depth += 1;
    if (depth < 0) return true;
  }
  return false;
}

function outside(text: string, path: KeyPath): Problem {
  return {
    code: "task/outside",
    message: `${formatKeyPath(path)}: ${JSON.stringify(text)} leads out of the workspace`,
    path,
    at: "value",
    hint: "Keep what a task makes inside {workspace}, or allow the path with --allow-outside.",
  };
}

function checkFixtures(fixtures: readonly string[], files: TaskFiles): Problem[] {
  const seen = new Map<string, KeyPath>();
  return fixtures.flatMap((text, index): Problem[] => {
    const path = ["spec", "fixtures", index];
    const name = lastName(text);
    if (name === undefined) {
      const message = `${formatKeyPath(path)} must name a file or folder inside the task's folder`;
      return [{ code: "config/invalid-value", message, path, at: "value" }];
    }
    const earlier = seen.get(name);
    if (earlier === undefined) seen.set(name, path);
    const found = checkFilePath(text, path, { files, wanted: "any" });
    return earlier === undefined ? found : [...found, sameName(name, path, earlier)];
  });
}

function sameName(name: string, path: KeyPath, earlier: KeyPath): Problem {
  const both = `${formatKeyPath(earlier)} and ${formatKeyPath(path)}`;
  return {
    code: "config/duplicate-name",
    message: `two fixtures would be ${JSON.stringify(name)} in the workspace: ${both}`,
    path,
    at: "value",
    alsoAt: earlier,
    hint: "Rename one of them.",
  };
}

/** The name under which a fixture is copied; undefined for one that has none, such as `.`. */
function lastName(path: string): string | undefined {
  const name = path.split(/[/\\]/).findLast((part) => part !== "");
  return name === undefined || name === "." || name === ".." ? undefined : name;
}

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
