import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/** The nearest folder from a folder upwards that has a `.git`, else the folder itself. */
export function repositoryOf(folder: string): string {
  for (let found = folder; ; found = dirname(found)) {
    if (existsSync(join(found, ".git"))) return found;
    if (dirname(found) === found) return folder;
  }
}
