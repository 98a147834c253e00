import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { McpvalsError } from "../../core/errors/error.ts";
import { type Body, fetchSource, type FetchOptions, unreachable } from "./fetch-source.ts";
import { integrityError } from "./integrity-error.ts";

/** Longest file that is fetched, in bytes. */
const mostBytes = 500 * 1024 * 1024;

export interface Download {
  readonly address: string;
  /** Absolute path of the file that is written. */
  readonly path: string;
  /** What errors call it. */
  readonly shown: string;
  /** `sha256:HEX` */
  readonly expected: string;
  /** In bytes, if it is known. */
  readonly size?: number | undefined;
}

/**
 * Fetches a file and checks it. Throws McpvalsError `extension/integrity` when it is not what was expected or too large,
 * and as `fetchSource` does; what was written stays.
 */
export async function download(
  { address, path, shown, expected, size }: Download,
  options: Omit<FetchOptions, "accept">,
): Promise<void> {
  if (size !== undefined && size > mostBytes) throw tooLarge(shown);
  const found = await fetchSource(address, { ...options, accept: "application/octet-stream" }, (body) =>
    write(body, path, shown),
  );
  if (found === undefined) throw unreachable(address, "there is no such file");
  if (found.hash === expected) return;
  const part = size === undefined || size === found.bytes ? "" : ` in ${found.bytes} of ${size} bytes`;
  throw integrityError({
    file: shown,
    expected,
    found: found.hash + part,
    hint: "It was damaged on the way, or somebody changed it. Try once more; if it stays, tell its makers.",
  });
}

async function write(body: Body, path: string, shown: string): Promise<{ hash: string; bytes: number }> {
  const sum = createHash("sha256");
  let bytes = 0;
  const measured = async function* (): AsyncIterable<Uint8Array> {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > mostBytes) throw tooLarge(shown);
      sum.update(chunk);
      yield chunk;
    }
  };
  await pipeline(measured, createWriteStream(path));
  return { hash: `sha256:${sum.digest("hex")}`, bytes };
}

function tooLarge(shown: string): McpvalsError {
  return new McpvalsError(
    "extension/integrity",
    `${shown} is longer than ${mostBytes / 1024 ** 2} MB, which no extension is.`,
  );
}
