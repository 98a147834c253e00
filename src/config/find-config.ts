import { basename, dirname, join } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { pathKind } from "./path-kind.ts";

/** Endings that a config file may have. */
export const configExtensions = ["ts", "mts", "js", "mjs", "json", "yaml", "yml"] as const;

const names = configExtensions.map((extension) => `mcp-eval.config.${extension}`);
const pattern = `mcp-eval.config.{${configExtensions.join(",")}}`;

/**
 * Finds the nearest config file from a folder upwards and gives its absolute path. Throws `config/not-found`, and
 * `config/duplicate-name` for a folder with two of them.
 */
export function findUpwards(start: string): string {
  const folders: string[] = [];
  for (let folder = start; ; folder = dirname(folder)) {
    const found = configIn(folder);
    if (found !== undefined) return found;
    folders.push(folder);
    if (dirname(folder) === folder) return notFound(folders);
  }
}

/** Throws `config/not-found`, with the folders that were looked into. */
export function notFound(folders: readonly string[]): never {
  const [first, ...above] = folders;
  const where = above.length === 0 ? `in ${first}` : `in ${first} or a folder above it`;
  throw new McpvalsError("config/not-found", `there is no config file ${where}`, {
    detail: folders.map((folder) => `looked for ${join(folder, pattern)}`).join("\n"),
    hint: "Run inside a folder with an mcp-eval.config file, or name one, or name tasks.",
  });
}

/** The config file in a folder, if there is one. Throws `config/duplicate-name` for a folder with two of them. */
export function configIn(folder: string): string | undefined {
  const found = names.map((name) => join(folder, name)).filter((file) => pathKind(file) === "file");
  if (found.length <= 1) return found[0];
  const files = found.map((file) => basename(file)).join(" and ");
  throw new McpvalsError("config/duplicate-name", `${folder} has more than one config file: ${files}`, {
    hint: "Remove all but one, or name the one that you mean.",
  });
}
