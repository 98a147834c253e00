import { type Entry, openPromise } from "yauzl";
import { unsafeArchive } from "./archive-names.ts";
import type { ArchiveEntry, ReadOptions } from "./archive.ts";

/** The entries of a zip. Throws McpvalsError `extension/unsafe-archive`, and an Error for what is no zip. */
export async function* readZip(path: string, { shown }: ReadOptions): AsyncIterable<ArchiveEntry> {
  const zip = await openPromise(path, { autoClose: false, strictFileNames: true, validateEntrySizes: true });
  try {
    for await (const entry of zip.eachEntry()) {
      yield { ...describe(entry, shown), open: () => zip.openReadStreamPromise(entry) };
    }
  } finally {
    zip.close();
  }
}

function describe(entry: Entry, shown: string): Omit<ArchiveEntry, "open"> {
  const mode = entry.externalFileAttributes >>> 16;
  const name = entry.fileName;
  if (entry.isEncrypted()) throw unsafeArchive(shown, `has ${JSON.stringify(name)} encrypted`);
  const kind = name.endsWith("/") ? "folder" : "file";
  const type = mode & typeBits;
  if (type === linkType) throw unsafeArchive(shown, `has a link, ${JSON.stringify(name)}`);
  if (type !== 0 && type !== (kind === "file" ? fileType : folderType)) {
    throw unsafeArchive(shown, `has ${JSON.stringify(name)}, which is neither a file nor a folder`);
  }
  return { name, kind, bytes: entry.uncompressedSize, executable: (mode & 0o111) !== 0 };
}

/** Kinds of files as Unix systems write them into a zip. */
const typeBits = 0o170000;
const linkType = 0o120000;
const fileType = 0o100000;
const folderType = 0o040000;
