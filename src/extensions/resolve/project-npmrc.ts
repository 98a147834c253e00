import { rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { makeTemporaryFolder } from "../../process/temporary-folder.ts";
import { readTextIfThere, refuseForeign } from "./file-errors.ts";

export interface ProjectPlace {
  /** Absolute folder of the project; absent: there is none. */
  readonly dir?: string;
  /** The user's own folder, whose `.npmrc` npm heeds anyway. */
  readonly home: string;
}

/**
 * What of a project's `.npmrc` is heeded: where registries are, of all packages or of a scope, and what they want to know of
 * who asks. A private package must not be looked for on the public registry, where anybody could have taken its name. All
 * else, such as programs to run and certificates to trust, is left out: a project is no more trusted than that. The nearest
 * file counts, from its folder upwards as far as its repository; the result is empty without one. Throws McpvalsError
 * `config/unreadable`, and `config/foreign-owner` for one of another user than this one and the owner of the folder.
 */
export async function projectNpmrc({ dir, home }: ProjectPlace): Promise<string> {
  if (dir === undefined) return "";
  for (let folder = resolve(dir); folder !== home; folder = dirname(folder)) {
    const text = textOf(join(folder, ".npmrc"));
    if (text !== undefined) {
      refuseForeign(join(folder, ".npmrc"), resolve(dir));
      return heeded(text);
    }
    if ((await isThere(join(folder, ".git"))) || dirname(folder) === folder) break;
  }
  return "";
}

/**
 * Does what needs a folder in which npm finds settings: the user's own folder when there are none, else a fresh one, which is
 * removed afterwards.
 */
export async function withNpmrc<T>(
  npmrc: string,
  home: string,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  if (npmrc === "") return work(home);
  const folder = await makeTemporaryFolder("npm");
  try {
    await writeNpmProject(folder, npmrc);
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Makes a folder one in which npm looks for settings. */
export async function writeNpmProject(folder: string, npmrc: string): Promise<void> {
  await writeFile(join(folder, "package.json"), `{"private":true}\n`);
  if (npmrc !== "") await writeFile(join(folder, ".npmrc"), npmrc, { mode: 0o600 });
}

function heeded(text: string): string {
  const wanted = /^\s*(?:(?:@[\w.~-]+:)?registry|\/\/[^\s=]+:(?:_authToken|_auth|username|_password))\s*=/;
  const lines = text.split(/\r?\n/).filter((line) => wanted.test(line));
  return lines.map((line) => `${line.trim()}\n`).join("");
}

/** Without it a private package could be looked for on the public registry. */
function textOf(path: string): string | undefined {
  try {
    return readTextIfThere(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("config/unreadable", `${path} cannot be read: ${reason}`, { cause });
  }
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
