import { isAbsolute, relative, sep } from "node:path";

/** Whether a path is that of something in a folder, as it is written; links are not followed. */
export function insideOf(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== "" && way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}
