import { randomUUID } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeFolder } from "../../files/make-folder.ts";

export interface WriteOptions {
  /** Permission bits, whatever the process's umask is. */
  readonly mode: number;
  readonly signal: AbortSignal;
}

/**
 * Writes a file and the folders that it is in. Whoever looks at the path sees what was there before or the whole new file
 * with its mode, never a part; what was there, also a link, is replaced. Gives the number of bytes. Throws what the file
 * system throws, and the signal's reason.
 */
export async function writeFileWhole(
  path: string,
  content: string,
  { mode, signal }: WriteOptions,
): Promise<number> {
  const folder = dirname(path);
  makeFolder(folder);
  const draft = join(folder, `.mcpvals-${randomUUID()}`);
  const bytes = Buffer.from(content, "utf8");
  try {
    await writeDraft(await open(draft, "wx", 0o600), bytes, { mode, signal });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  return bytes.length;
}

async function writeDraft(file: FileHandle, bytes: Buffer, { mode, signal }: WriteOptions): Promise<void> {
  try {
    await file.writeFile(bytes, { signal });
    await file.chmod(mode);
    signal.throwIfAborted();
  } finally {
    await file.close();
  }
}
