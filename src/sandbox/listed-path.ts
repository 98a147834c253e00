import { join, resolve } from "node:path";

/** The absolute path of one that a sandbox lists, which may be relative to `dir` or begin with `~/`. */
export function listedPath(path: string, dir: string, home: string): string {
  return path === "~" || path.startsWith("~/") ? join(home, path.slice(1)) : resolve(dir, path);
}
