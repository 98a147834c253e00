import { McpvalsError } from "../../core/errors/error.ts";

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
