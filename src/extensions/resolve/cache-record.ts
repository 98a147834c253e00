import * as z from "zod";
import { McpvalsError } from "../../core/errors/error.ts";
import { readRegularFile } from "../../files/read-file.ts";
import type { Tree } from "./tree-hash.ts";

/** What the cache knows of a version, in `extension.json` beside its files. What the lock says counts more. */
export interface CacheRecord {
  /** Without its version. */
  readonly package: string;
  readonly version: string;
  readonly platform: string;
  /** Name and hash of the file that was fetched, as in the lock. */
  readonly name: string;
  readonly hash: string;
  /** `sha256:HEX` of the release's file of checksums. */
  readonly checksums?: string;
  readonly tree: string;
  /** By path: SHA-256 in hex, and whether it is executable, to tell which file is not what it was. */
  readonly files: Readonly<Record<string, RecordedFile>>;
}

interface RecordedFile {
  readonly hash: string;
  readonly executable: boolean;
  readonly bytes: number;
}

/** In bytes; that of the most files that an archive may have is half as large. */
const largestRecord = 16 * 1024 * 1024;

const schema = z.object({
  package: z.string(),
  version: z.string(),
  platform: z.string(),
  name: z.string(),
  hash: z.string(),
  checksums: z.string().exactOptional(),
  tree: z.string(),
  files: z.record(z.string(), z.object({ hash: z.string(), executable: z.boolean(), bytes: z.number() })),
});

/**
 * Reads `extension.json`, which must be what `isRight` tells. Throws McpvalsError `extension/integrity` for one that nobody
 * of us wrote.
 */
export async function readRecord(
  path: string,
  isRight: (record: CacheRecord) => boolean,
): Promise<CacheRecord> {
  try {
    const record = schema.parse(JSON.parse(readRegularFile(path, largestRecord).toString("utf8")));
    if (!isRight(record)) throw new Error("it is about another version than its folder");
    return record;
  } catch (cause) {
    throw new McpvalsError(
      "extension/integrity",
      `${path} is damaged, so what is beside it cannot be trusted.`,
      {
        hint: "Remove its folder, as mcpvals extensions prune does; the extension is then fetched again.",
        cause,
      },
    );
  }
}

/** The paths of the files that were made executable. */
export function executablesOf({ files }: CacheRecord): ReadonlySet<string> {
  return new Set(Object.keys(files).filter((path) => files[path]?.executable === true));
}

/** The files of a folder as a record has them. */
export function recordedFiles({ files }: Tree): CacheRecord["files"] {
  return Object.fromEntries(
    files.map(({ path, hash, executable, bytes }) => [path, { hash, executable, bytes }]),
  );
}

/** The first few files that are not as they were recorded, in words; undefined when all are. */
export function changedFiles({ files: recorded }: CacheRecord, { files }: Tree): string | undefined {
  const found = new Set(files.map(({ path }) => path));
  const gone = Object.keys(recorded).filter((path) => !found.has(path));
  const others = files.flatMap(({ path, hash, executable }) => {
    const before = Object.hasOwn(recorded, path) ? recorded[path] : undefined;
    if (before === undefined) return [`${path} was added`];
    if (before.hash !== hash) return [`${path} was changed`];
    return before.executable === executable ? [] : [`${path} was made ${executable ? "" : "not "}executable`];
  });
  const all = [...others, ...gone.map((path) => `${path} was removed`)];
  if (all.length === 0) return undefined;
  const rest = all.length > mostTold ? [`${all.length - mostTold} more`] : [];
  return [...all.slice(0, mostTold), ...rest].join(", ");
}

const mostTold = 5;
