import { cp, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import type { PortableTask } from "../core/formats/model.ts";

/** A trial's own folder. */
export interface Workspace {
  /** Absolute path, without links. */
  readonly path: string;
  /** Names of what was copied into it. */
  readonly fixtures: readonly string[];
  /** Removes it with everything in it. Throws McpvalsError `task/workspace`. */
  remove(): Promise<void>;
}

/** Makes a fresh folder and copies the task's fixtures into it. Throws McpvalsError `task/workspace`; nothing is left then. */
export async function createWorkspace({ fixtures, dir }: PortableTask): Promise<Workspace> {
  const path = await failingAs("cannot be made", async () =>
    realpath(await mkdtemp(join(tmpdir(), "mcpvals-"))),
  );
  const remove = (): Promise<void> =>
    failingAs("cannot be removed", () => rm(path, { recursive: true, force: true, maxRetries: 5 }));
  try {
    for (const fixture of fixtures) await copy(resolve(dir, fixture), path);
  } catch (error) {
    await remove();
    throw error;
  }
  return { path, fixtures: fixtures.map((fixture) => basename(fixture)), remove };
}

function copy(from: string, folder: string): Promise<void> {
  const to = join(folder, basename(from));
  return failingAs(`lacks its fixture ${from}`, () =>
    cp(from, to, { recursive: true, errorOnExist: true, force: false }),
  );
}

async function failingAs<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("task/workspace", `the workspace ${what}: ${reason}`, { cause });
  }
}
