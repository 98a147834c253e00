import { maxYamlBytes } from "../../base/limits.ts";
import { codeOf, McpvalsError, messageOf } from "../../base/error.ts";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { ErrorCode } from "../../base/catalogue.ts";
import { formatLock, type LockFile, parseLock } from "../lock-file.ts";
import { parseStrictYaml } from "../../base/parse-yaml.ts";
import { isForeign, ownerOf, readRegularFile } from "../../base/files.ts";

/**
 * The error `extension/integrity` for a file, or the files of a folder, whose content is not the expected one; `expected`
 * also names the source of the expectation.
 */
export function integrityError(mismatch: {
  readonly file: string;
  readonly expected: string;
  readonly found: string;
  readonly hint: string;
}): McpvalsError {
  const { file, expected, found, hint } = mismatch;
  const message = `${file} does not match: expected ${expected}, found ${found}. Nothing of it was run.`;
  return new McpvalsError("extension/integrity", message, { hint });
}

export function lockMismatch(file: string, locked: string, found: string): McpvalsError {
  return integrityError({
    file,
    expected: `${locked}, as locked`,
    found,
    hint: "The release was changed after it was locked, or the lock was edited. Ask the authors why; if the change is legitimate, remove the entry from mcp-eval.lock and add it again.",
  });
}

/** A SHA-256 hash given by the user, in the form of the lock. */
export function givenHash(sha256: string): string {
  return `sha256:${sha256.replace(/^sha256:/i, "").toLowerCase()}`;
}

/** The error for a path that cannot be written; any other error stays as it is. */
export function unwritable(path: string, error: unknown): unknown {
  if (!hasCode(error, "EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "ENOTDIR", "ENOENT")) return error;
  return new McpvalsError("extension/unwritable", `${path} cannot be written: ${error.message}`, {
    cause: error,
  });
}

/** Whether an error of the file system has one of these codes. */
export function hasCode(error: unknown, ...codes: readonly string[]): error is Error {
  return codes.includes(codeOf(error) ?? "");
}

/**
 * Reads a small text file; undefined when it does not exist. Throws McpvalsError with the code for a file that cannot be
 * read: a folder, a pipe, or more than 512 KiB.
 */
export function readTextIfThere(path: string, code: ErrorCode): string | undefined {
  try {
    return readRegularFile(path, maxYamlBytes).toString("utf8");
  } catch (cause) {
    if (hasCode(cause, "ENOENT", "ENOTDIR")) return undefined;
    throw new McpvalsError(code, `${path} cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/** Parses YAML without duplicate keys. Throws McpvalsError with the code; `shown` names the file in messages. */
export function parseYaml(text: string, shown: string, code: ErrorCode): unknown {
  try {
    return parseStrictYaml(text);
  } catch (cause) {
    // The code frame follows on further lines.
    const [reason = ""] = messageOf(cause).split(/:?\n/);
    throw new McpvalsError(code, `${shown} is not valid YAML: ${reason}`, { cause });
  }
}

/**
 * Finds the nearest file with the name, which may be a path, from a folder upwards to the root of its repository; undefined
 * if there is none. Throws McpvalsError `config/foreign-owner` for a file that belongs neither to this user, nor to the owner of
 * the folder, nor to root, and `code` for a file that cannot be read.
 */
export function findUpwards(
  name: string,
  start: string,
  code: ErrorCode,
): { readonly path: string; readonly text: string } | undefined {
  for (let folder = start; ; folder = dirname(folder)) {
    const path = join(folder, name);
    const text = readTextIfThere(path, code);
    if (text !== undefined) {
      if (!isForeign(path, [ownerOf(start)])) return { path, text };
      throw new McpvalsError("config/foreign-owner", `${path} or its folder belongs to another user`, {
        hint: "It decides which programs are fetched and run. Put one of your own into a nearer folder, or remove this one.",
      });
    }
    if (existsSync(join(folder, ".git")) || dirname(folder) === folder) return undefined;
  }
}

/** Name of the lock file. */
const lockName = "mcp-eval.lock";

/**
 * Reads the nearest lock, from a folder upwards to the top of its repository; without one, gives an empty lock and the path in
 * that folder. Throws McpvalsError `extension/invalid-lock` with all problems, and as `findUpwards` does.
 */
export async function readLock(folder: string): Promise<{ readonly path: string; readonly lock: LockFile }> {
  const code = "extension/invalid-lock";
  const start = resolve(folder);
  const found = findUpwards(lockName, start, code);
  if (found === undefined) return { path: join(start, lockName), lock: { version: 1, extensions: {} } };
  const { path, text } = found;
  const parsed = parseLock(parseYaml(text, path, code));
  if (parsed.ok) return { path, lock: parsed.lock };
  throw new McpvalsError(code, `${path}: ${parsed.problems.map(({ message }) => message).join("; ")}`);
}

/** Replaces the whole lock at once. Equal locks have equal text. */
export async function writeLock(path: string, lock: LockFile): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, formatLock(lock), { flag: "wx" });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined); // the first error is the reason
    throw unwritable(path, error);
  }
}
