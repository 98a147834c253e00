import { createHash } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as z from "zod";
import type { Task } from "../core/formats/model.ts";
import { makeFolder } from "../files/make-folder.ts";
import { readRegularFile } from "../files/read-file.ts";
import { defaultRunsFolder, keepOutOfGit, refusePlanted } from "./run-folder.ts";

const file = join(dirname(defaultRunsFolder), "proofs.json");
/** Maximum number of recorded tasks; the oldest are dropped first. */
const mostTasks = 10_000;
const largestFile = 1024 * 1024;
const proofsSchema = z.object({ version: z.literal(1), tasks: z.array(z.string()) });

/**
 * Records in `.mcpvals/proofs.json` of the working folder that these tasks fail when the agent does nothing. A task that is
 * changed later counts as unproven again. Throws `store/unwritable`, or what the file system throws.
 */
export function recordProofs(cwd: string, tasks: readonly Task[]): void {
  refusePlanted(cwd);
  const path = join(cwd, file);
  const hashes = [...new Set([...readHashes(path), ...tasks.map(hashOf)])].slice(-mostTasks);
  makeFolder(dirname(path));
  keepOutOfGit(dirname(path));
  writeFileSync(`${path}.part`, JSON.stringify({ version: 1, tasks: hashes }), { mode: 0o600 });
  renameSync(`${path}.part`, path);
}

/** The tasks that {@link recordProofs} has not recorded as they are now. */
export function unprovenTasks(cwd: string, tasks: readonly Task[]): readonly Task[] {
  const known = new Set(readHashes(join(cwd, file)));
  return tasks.filter((task) => !known.has(hashOf(task)));
}

/** Empty when the file is absent or invalid: then `run` only prints a note more. */
function readHashes(path: string): readonly string[] {
  try {
    return proofsSchema.parse(JSON.parse(readRegularFile(path, largestFile).toString())).tasks;
  } catch {
    return [];
  }
}

/** Limits and numbers of attempts do not change what a task checks. */
function hashOf({ name, turns, verify, portable }: Task): string {
  const { timeoutMs: _, runs: __, ...rest } = portable ?? {};
  return createHash("sha256")
    .update(JSON.stringify([name, turns, verify, rest]))
    .digest("hex");
}
