import { statSync } from "node:fs";
import { McpvalsError } from "../core/errors/error.ts";

/** What holds nothing that could be read: a folder that may not be entered, a path through a file, an endless link. */
const absent: readonly unknown[] = ["EACCES", "EPERM", "ENOTDIR", "ELOOP", "ENAMETOOLONG"];

/** What is at a path; links are followed. Throws `config/unreadable` for what is no path at all. */
export function pathKind(path: string): "file" | "folder" | undefined {
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined) return undefined;
    return stats.isDirectory() ? "folder" : "file";
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && absent.includes(cause.code)) return undefined;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("config/unreadable", `${JSON.stringify(path)} cannot be read: ${reason}`, {
      cause,
    });
  }
}
