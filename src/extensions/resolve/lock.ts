import { randomBytes } from "node:crypto";
import { rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { formatLock, type LockFile, parseLock } from "../../core/formats/extension/lock-file.ts";
import { parseStrictYaml } from "../../core/formats/extension/parse-strict-yaml.ts";
import { hasCode, readTextIfThere, refuseForeign, unwritable } from "./errors.ts";

/** Name of the lock file. */
const lockName = "mcp-eval.lock";

/**
 * Reads the nearest lock, looking from a folder upwards as far as its repository; without one, an empty one that is to be
 * made in that folder. Throws McpvalsError `extension/invalid-lock` with everything that is wrong with it, and
 * `config/foreign-owner` for one of another user than this one and the owner of the folder.
 */
export async function readLock(folder: string): Promise<{ readonly path: string; readonly lock: LockFile }> {
  const start = resolve(folder);
  for (let place = start; ; place = dirname(place)) {
    const path = join(place, lockName);
    const text = textOf(path);
    if (text !== undefined) {
      refuseForeign(path, start);
      return { path, lock: await lockOf(text, path) };
    }
    if ((await isThere(join(place, ".git"))) || dirname(place) === place) break;
  }
  return { path: join(start, lockName), lock: { version: 1, extensions: {} } };
}

/** Replaces the lock as a whole, sorted, so that nobody ever reads half of it and the same lock is the same text. */
export async function writeLock(path: string, lock: LockFile): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, formatLock(lock), { flag: "wx" });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined); // the first error says what is the matter
    throw unwritable(path, error);
  }
}

async function lockOf(text: string, path: string): Promise<LockFile> {
  const parsed = parseLock(await yamlOf(text, path));
  if (parsed.ok) return parsed.lock;
  const messages = parsed.problems.map(({ message }) => message);
  throw new McpvalsError("extension/invalid-lock", `${path}: ${messages.join("; ")}`);
}

/** Strict: two entries of one name, as a bad merge leaves them, are refused. */
async function yamlOf(text: string, path: string): Promise<unknown> {
  try {
    return await parseStrictYaml(text);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("extension/invalid-lock", `${path} is no YAML: ${reason}`, { cause });
  }
}

function textOf(path: string): string | undefined {
  try {
    return readTextIfThere(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("extension/invalid-lock", `${path} cannot be read: ${reason}`, { cause });
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR", "EACCES")) return false;
    throw error;
  }
}
