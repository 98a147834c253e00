import { existsSync } from "node:fs";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import picomatch from "picomatch";
import { McpvalsError } from "../../core/errors/error.ts";
import { isForeign, ownUser } from "../../files/ownership.ts";
import type { EnvironmentVariables, LoadContext } from "../environment.ts";
import { expandGlob, isDataFile, isGlob, isOrdinaryFolder, pathKind, walkFolder } from "./expand-glob.ts";

/** Endings that a config file may have. */
export const configExtensions = ["ts", "mts", "js", "mjs", "json", "yaml", "yml"] as const;

const names = configExtensions.map((extension) => `mcp-eval.config.${extension}`);
const pattern = `mcp-eval.config.{${configExtensions.join(",")}}`;

/**
 * Finds the nearest config file from a folder upwards and gives its absolute path. Throws `config/not-found`,
 * `config/foreign-owner` for one that another user may have put there, since nobody named it and it may be a program; and
 * `config/duplicate-name` for a folder with two of them.
 */
function findUpwards(start: string, environment: EnvironmentVariables): string {
  const folders: string[] = [];
  for (let folder = start; ; folder = dirname(folder)) {
    const found = configIn(folder);
    if (found !== undefined) {
      if (isForeign(found, callers(environment))) throw foreignOwner(found);
      return found;
    }
    folders.push(folder);
    if (dirname(folder) === folder) return notFound(folders);
  }
}

/** Who called root: with sudo a user works in folders of their own. */
function callers({ SUDO_UID = "" }: EnvironmentVariables): readonly number[] {
  return ownUser() === 0 && /^\d+$/.test(SUDO_UID) ? [Number(SUDO_UID)] : [];
}

function foreignOwner(file: string): McpvalsError {
  return new McpvalsError(
    "config/foreign-owner",
    `${file} was found, but it or its folder belongs to another user`,
    {
      hint: `A config can run programs as you. If you trust it, name it: mcpvals COMMAND ${file}`,
    },
  );
}

/** Throws `config/not-found`, with the folders that were looked into. */
function notFound(folders: readonly string[]): never {
  const [first, ...above] = folders;
  const where = above.length === 0 ? `in ${first}` : `in ${first} or a folder above it`;
  throw new McpvalsError("config/not-found", `there is no config file ${where}`, {
    detail: folders.map((folder) => `looked for ${join(folder, pattern)}`).join("\n"),
    hint: "Run inside a folder with an mcp-eval.config file, or name one, or name tasks.",
  });
}

/** The config file in a folder, if there is one. Throws `config/duplicate-name` for a folder with two of them. */
function configIn(folder: string): string | undefined {
  const found = names.map((name) => join(folder, name)).filter((file) => pathKind(file) === "file");
  if (found.length <= 1) return found[0];
  const files = found.map((file) => basename(file)).join(" and ");
  throw new McpvalsError("config/duplicate-name", `${folder} has more than one config file: ${files}`, {
    hint: "Remove all but one, or name the one that you mean.",
  });
}

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
  { cwd, environment }: Pick<LoadContext, "cwd" | "environment">,
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

/** The nearest folder from a folder upwards that has a `.git`, else the folder itself. */
export function repositoryOf(folder: string): string {
  for (let found = folder; ; found = dirname(found)) {
    if (existsSync(join(found, ".git"))) return found;
    if (dirname(found) === found) return folder;
  }
}
