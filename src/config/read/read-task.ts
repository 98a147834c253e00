import { open, stat } from "node:fs/promises";
import { McpvalsError } from "../../core/errors/error.ts";
import type { ConfigDocument } from "./document.ts";
import { documentKind, rootMembers } from "./document-kind.ts";
import { endingOf, parseData, readDataText } from "./read-document.ts";

/** How the beginning of a task looks, also of one that is broken. */
const saysTask = /\bkind["']?\s*:\s*["']?Task\b/i;
/** The group of an API of somebody else, such as `tekton.dev/v1`. */
const foreignVersion = /^[^/]*\.[^/]*\//;

/**
 * Reads a file that may be a task; gives undefined for one of another kind. Throws McpvalsError `config/unreadable` and
 * `config/syntax` for a task that is broken.
 */
export async function readTask(file: string, shown: string): Promise<ConfigDocument | undefined> {
  try {
    const source = await readDataText(file, shown);
    if (!/kind/i.test(source.text)) return undefined;
    const document = await parseData(source, endingOf(file));
    return isTask(document.value) ? document : undefined;
  } catch (error) {
    if (!(error instanceof McpvalsError) || (await looksLikeTask(file))) throw error;
    return undefined;
  }
}

function isTask(document: unknown): boolean {
  const root = rootMembers(document);
  const version = root.get("apiVersion");
  const isForeign = typeof version === "string" && foreignVersion.test(version);
  return documentKind(root) === "Task" && !isForeign;
}

const headBytes = 64 * 1024;

/** Whether a file that cannot be read as it should begins like a task; what cannot be read at all might be one. */
async function looksLikeTask(file: string): Promise<boolean> {
  try {
    // Opening a pipe could wait without end.
    if (!(await stat(file)).isFile()) return false;
    await using handle = await open(file);
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(headBytes) });
    return saysTask.test(buffer.toString("utf8", 0, bytesRead));
  } catch (cause) {
    if (cause instanceof Error && "code" in cause) return true;
    throw cause;
  }
}
