import { basename, extname, relative, resolve } from "node:path";
import picomatch from "picomatch";
import { McpvalsError } from "../../core/errors/error.ts";
import { configIn, findUpwards, notFound } from "../find-config.ts";
import { pathKind } from "../path-kind.ts";
import type { Surroundings } from "../surroundings.ts";
import { expandGlob, isDataFile, isGlob } from "./expand-glob.ts";
import { isOrdinaryFolder, walkFolder } from "./walk-folder.ts";

/** What one source on a command line leads to. */
export type Source =
  /** A file of any kind. */
  | { readonly kind: "file"; readonly path: string; readonly name: string }
  /** Files among which tasks are looked for; the others are left alone. */
  | {
      readonly kind: "search";
      readonly paths: readonly string[];
      readonly name: string;
      /** The source in messages. */
      readonly shown: string;
      /** The folder that was named. */
      readonly dir: string;
    };

/**
 * Finds what sources mean: files, folders, globs; none: the nearest config from `cwd` upwards. A folder with a config is
 * that config, else every file of data below it. Throws `config/not-found`, `config/foreign-owner`, `config/duplicate-name`.
 */
export function findSources(
  sources: readonly string[],
  { cwd, environment }: Pick<Surroundings, "cwd" | "environment">,
): readonly Source[] {
  if (sources.length === 0) return [fileSource(findUpwards(resolve(cwd), environment))];
  return sources.map((source) => findSource(source, cwd));
}

function findSource(source: string, cwd: string): Source {
  const target = resolve(cwd, source);
  switch (pathKind(target)) {
    case "file":
      return fileSource(target);
    case "folder":
      return folderSource(target, cwd);
    case undefined:
      return isGlob(source) ? globSource(source, cwd) : nothingThere(target);
  }
}

function fileSource(path: string): Source {
  return { kind: "file", path, name: basename(path, extname(path)) };
}

function folderSource(folder: string, cwd: string): Source {
  const config = configIn(folder);
  if (config !== undefined) return fileSource(config);
  const paths = walkFolder(folder, { depth: Infinity, enters: isOrdinaryFolder })
    .filter((path) => isDataFile(path) && isOrdinaryFolder(basename(path)))
    .map((path) => resolve(folder, path));
  if (paths.length === 0) return notFound([folder]);
  return {
    kind: "search",
    paths,
    name: basename(folder) || "tasks",
    shown: relative(cwd, folder) || ".",
    dir: folder,
  };
}

function globSource(pattern: string, cwd: string): Source {
  const matches = expandGlob(pattern, { cwd, dialect: "shell" });
  const paths = matches.filter(isDataFile);
  if (paths.length === 0) return noMatch(pattern, matches.length > 0);
  const dir = resolve(cwd, picomatch.scan(pattern).base);
  return { kind: "search", paths, name: basename(dir) || "tasks", shown: pattern, dir };
}

function noMatch(pattern: string, isOther: boolean): never {
  const what = isOther ? ".yaml, .yml or .json file" : "file";
  throw new McpvalsError("config/not-found", `no ${what} matches ${pattern}`, {
    hint: "Hidden folders and node_modules are not searched. Name a folder to take all tasks below it.",
  });
}

function nothingThere(target: string): never {
  throw new McpvalsError("config/not-found", `there is no file or folder ${target}`, {
    hint: "Name a config, a task or an Eval, a folder that has some, or a glob.",
  });
}
