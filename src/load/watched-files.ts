import { homedir } from "node:os";
import { dirname, isAbsolute, relative, resolve, sep } from "node:path";
import type { Json, ServerSpec, Task } from "../core/formats/model.ts";
import { effectiveServers } from "../core/plan/plan.ts";
import type { LoadedConfig } from "./assemble-eval.ts";
import { pathKind } from "./sources.ts";

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
  if (typeof settings !== "string" || settings.length > longestPath) return [];
  const path = resolve(dir, settings);
  return !path.includes("\0") && pathKind(path) === "file" ? [{ path, kind: "file" }] : [];
}

const longestPath = 1000;

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

/** Whether a path is a folder, or below it. */
function isBelow(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way.split(sep)[0] !== ".." && !isAbsolute(way));
}
