import { McpvalsError, messageOf } from "../core/errors/error.ts";
import { cp, lstat, readlink, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import type { PortableTask } from "../core/formats/model.ts";
import { makeTemporaryFolder, removeFolder } from "../process/folders.ts";

/** A trial's own folder. */
export interface Workspace {
  /** Absolute path, without links. */
  readonly path: string;
  /** Names of the fixtures in it. */
  readonly fixtures: readonly string[];
  /** Removes it with everything in it. Throws McpvalsError `task/workspace`. */
  readonly remove: () => Promise<void>;
}

/**
 * Creates an empty folder and copies the task's fixtures into it, under their base names; those of waza keep their folders.
 * Throws McpvalsError `task/workspace`, and `task/outside` for a link in a fixture that leads out of it, unless
 * `allowOutside`; nothing is left then.
 */
export async function createWorkspace(
  task: Pick<PortableTask, "fixtures" | "dir" | "format"> | undefined,
  { allowOutside }: { readonly allowOutside: boolean },
): Promise<Workspace> {
  const { fixtures = [], dir = "", format } = task ?? {};
  const path = await failingAs("cannot be created", () => makeTemporaryFolder("work"));
  const remove = (): Promise<void> => failingAs("cannot be removed", () => removeFolder(path));
  const nameOf = (fixture: string): string => (format === "waza" ? fixture : basename(fixture));
  try {
    for (const fixture of fixtures)
      await copy(resolve(dir, fixture), join(path, nameOf(fixture)), allowOutside);
  } catch (error) {
    await remove();
    throw error;
  }
  return { path, fixtures: fixtures.map(nameOf), remove };
}

async function copy(fixture: string, to: string, allowOutside: boolean): Promise<void> {
  await failingAs(`lacks its fixture ${fixture}`, async () => {
    const from = await realpath(fixture);
    const filter = async (source: string): Promise<boolean> => {
      if (!allowOutside) await refuseLeavingLink(source, from);
      return true;
    };
    await cp(from, to, { recursive: true, errorOnExist: true, force: false, verbatimSymlinks: true, filter });
  });
}

/** In the workspace such a link would lead elsewhere, or let a trial change the task's own files. */
async function refuseLeavingLink(path: string, fixture: string): Promise<void> {
  if (!(await lstat(path)).isSymbolicLink()) return;
  const target = await readlink(path);
  const way = relative(fixture, resolve(dirname(path), target));
  if (!isAbsolute(target) && !isAbsolute(way) && way !== ".." && !way.startsWith(`..${sep}`)) return;
  const message = `the link ${path} leads to ${target}, out of the fixture ${fixture}`;
  const hint = "Copy what it leads to into the fixture, or allow it with --allow-outside.";
  throw new McpvalsError("task/outside", message, { hint });
}

async function failingAs<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof McpvalsError) throw cause;
    const reason = messageOf(cause);
    throw new McpvalsError("task/workspace", `the workspace ${what}: ${reason}`, { cause });
  }
}
