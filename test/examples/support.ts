import { copyFileSync, cpSync } from "node:fs";
import { join } from "node:path";
import { folderOf, root } from "../support/cli.ts";
import { examplePlatform } from "../support/programs.ts";

/** A copy of the example tasks, in which servers start faster: `PATH` decides which is meant, and the platform is one file. */
export function copyTasks(): ReturnType<typeof folderOf> {
  const copy = folderOf({ "package.json": { type: "module" } });
  cpSync(join(root, "examples/tasks"), copy.path, { recursive: true });
  copyFileSync(examplePlatform, join(copy.path, "services/platform.js"));
  return copy;
}
