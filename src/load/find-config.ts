import { basename, dirname, join } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { isForeign, ownUser } from "../files/ownership.ts";
import type { EnvironmentVariables } from "./environment.ts";
import { pathKind } from "./path-kind.ts";

/** Endings that a config file may have. */
export const configExtensions = ["ts", "mts", "js", "mjs", "json", "yaml", "yml"] as const;

const names = configExtensions.map((extension) => `mcp-eval.config.${extension}`);
const pattern = `mcp-eval.config.{${configExtensions.join(",")}}`;

/**
 * Finds the nearest config file from a folder upwards and gives its absolute path. Throws `config/not-found`,
 * `config/foreign-owner` for one that another user may have put there, since nobody named it and it may be a program; and
 * `config/duplicate-name` for a folder with two of them.
 */
export function findUpwards(start: string, environment: EnvironmentVariables): string {
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
