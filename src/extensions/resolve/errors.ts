import { McpvalsError } from "../../core/errors/error.ts";
import { isForeign, ownerOf } from "../../files/ownership.ts";
import { readRegularFile } from "../../files/read-file.ts";

export interface Mismatch {
  /** What was looked at, with where it is: a file, or all files of a folder. */
  readonly file: string;
  /** What it must be, and who says so. */
  readonly expected: string;
  /** What it is. */
  readonly found: string;
  readonly hint: string;
  readonly detail?: string;
}

/** The error `extension/integrity` for a file that is not what it should be. */
export function integrityError({ file, expected, found, hint, detail }: Mismatch): McpvalsError {
  const message = `${file} is not what it should be: expected ${expected}, found ${found}. Nothing of it was run.`;
  return new McpvalsError("extension/integrity", message, {
    hint,
    ...(detail === undefined ? {} : { detail }),
  });
}

/** What is thrown for a place that cannot be written; any other error stays as it is. */
export function unwritable(path: string, error: unknown): unknown {
  if (!hasCode(error, "EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "ENOTDIR", "ENOENT")) return error;
  return new McpvalsError("extension/unwritable", `${path} cannot be written: ${error.message}`, {
    cause: error,
  });
}

/** Tells whether an error of the file system has one of these codes. */
export function hasCode(error: unknown, ...codes: readonly string[]): error is Error {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}

/** Largest of the small files that tell of an extension, in bytes. */
const largestText = 512 * 1024;

/**
 * Reads one of the small files that tell of an extension; undefined when it is not there. Throws an Error for what cannot be
 * read, such as a folder, a pipe, or more than 512 KiB.
 */
export function readTextIfThere(path: string): string | undefined {
  try {
    return readRegularFile(path, largestText).toString("utf8");
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  }
}

/**
 * Refuses a file that was found by looking upwards from a folder and that neither this user, nor the owner of that folder, nor
 * root has put there. Throws McpvalsError `config/foreign-owner`.
 */
export function refuseForeign(path: string, start: string): void {
  if (!isForeign(path, [ownerOf(start)])) return;
  throw new McpvalsError("config/foreign-owner", `${path} or its folder belongs to another user`, {
    hint: "It decides which programs are fetched and run. Put one of your own into a nearer folder, or remove this one.",
  });
}
