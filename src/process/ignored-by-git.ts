import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

/** Absolute paths of the files and folders below a folder that git ignores; none where there is no repository, or no git. */
export async function ignoredByGit(folder: string): Promise<readonly string[]> {
  const list = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"];
  try {
    const { stdout } = await promisify(execFile)("git", ["-c", "core.fsmonitor=false", ...list], {
      cwd: folder,
      maxBuffer: 64 * 1024 * 1024,
      timeout: 30_000,
    });
    return stdout.split("\0").flatMap((path) => (path === "" ? [] : [join(folder, path.replace(/\/$/, ""))]));
  } catch {
    return [];
  }
}
