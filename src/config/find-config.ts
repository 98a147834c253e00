import { statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";

/** Endings that a config file may have. */
export const configExtensions = ["ts", "mts", "js", "mjs", "json", "yaml", "yml"] as const;

const names = configExtensions.map((extension) => `mcp-eval.config.${extension}`);
const pattern = `mcp-eval.config.{${configExtensions.join(",")}}`;

/**
 * Finds the config file and gives its absolute path: `path` when it is a file, the one in the folder when it is a
 * folder, else the nearest one from `cwd` upwards. Throws `config/not-found`, and `config/duplicate-name` for a folder
 * with two of them.
 */
export function findConfig(path: string | undefined, cwd: string): string {
  if (path === undefined) return findUpwards(resolve(cwd));
  const target = resolve(cwd, path);
  const kind = kindOf(target);
  if (kind === "file") return target;
  if (kind === undefined) {
    throw new McpvalsError("config/not-found", `there is no file or folder ${target}`, {
      hint: "Name a config file, or a folder that has one.",
    });
  }
  return configIn(target) ?? notFound([target]);
}

function findUpwards(start: string): string {
  const folders: string[] = [];
  for (let folder = start; ; folder = dirname(folder)) {
    const found = configIn(folder);
    if (found !== undefined) return found;
    folders.push(folder);
    if (dirname(folder) === folder) return notFound(folders);
  }
}

function notFound(folders: readonly string[]): never {
  const [first, ...above] = folders;
  const where = above.length === 0 ? `in ${first}` : `in ${first} or a folder above it`;
  throw new McpvalsError("config/not-found", `there is no config file ${where}`, {
    detail: folders.map((folder) => `looked for ${join(folder, pattern)}`).join("\n"),
    hint: "Run inside a folder with an mcp-eval.config file, or name one.",
  });
}

function configIn(folder: string): string | undefined {
  const found = names.map((name) => join(folder, name)).filter((file) => kindOf(file) === "file");
  if (found.length <= 1) return found[0];
  const files = found.map((file) => basename(file)).join(" and ");
  throw new McpvalsError("config/duplicate-name", `${folder} has more than one config file: ${files}`, {
    hint: "Remove all but one, or name the one that you mean.",
  });
}

function kindOf(path: string): "file" | "folder" | undefined {
  const stats = stat(path);
  if (stats === undefined) return undefined;
  return stats.isDirectory() ? "folder" : "file";
}

/** What holds nothing that could be read: a folder that may not be entered, a path through a file, an endless link. */
const absent: readonly unknown[] = ["EACCES", "EPERM", "ENOTDIR", "ELOOP", "ENAMETOOLONG"];

function stat(path: string): ReturnType<typeof statSync> {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && absent.includes(cause.code)) return undefined;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("config/unreadable", `${JSON.stringify(path)} cannot be read: ${reason}`, {
      cause,
    });
  }
}
