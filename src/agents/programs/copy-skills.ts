import { copyFile, lstat, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import type { AgentSkills } from "../../core/formats/model.ts";
import type { AgentContext } from "../driver.ts";
import { makeFolder } from "../../files/make-folder.ts";

/** Most files that are copied for one trial. */
const mostFiles = 10_000;

/**
 * Copies skills into the workspace, to where the agent looks for them, and says so in the trace; links are copied as what
 * they lead to. Throws McpvalsError `agent/skills`.
 */
export async function copySkills(
  skills: AgentSkills | undefined,
  { workspace, emit }: Pick<AgentContext, "workspace" | "emit">,
): Promise<void> {
  if (skills === undefined) return;
  const { folders, mountPath, tool } = skills;
  try {
    const mount = await makeMount(workspace, mountPath);
    const copy = new SkillCopy();
    for (const folder of folders) {
      const isSkill = (await readdir(folder)).includes("SKILL.md");
      await copy.folder(folder, isSkill ? join(mount, basename(folder)) : mount);
    }
    const entries = await readdir(mount, { withFileTypes: true });
    const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    const told = { folder: mountPath, skills: names.toSorted(), ...(tool === undefined ? {} : { tool }) };
    emit({ type: "skills.copied", ...told });
  } catch (cause) {
    if (cause instanceof McpvalsError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw failure(`the skills cannot be copied: ${reason}`, cause);
  }
}

/** What was made in the workspace before may have put a link there, which is not followed. */
async function makeMount(workspace: string, mountPath: string): Promise<string> {
  let folder = workspace;
  for (const name of mountPath.split("/")) {
    folder = join(folder, name);
    makeFolder(folder);
    if ((await lstat(folder)).isSymbolicLink()) throw failure(`there is a link in the place of ${folder}`);
  }
  return folder;
}

/** Copies folders, as many files as are allowed. */
class SkillCopy {
  #files = 0;

  async folder(from: string, to: string): Promise<void> {
    makeFolder(to);
    for (const name of await readdir(from)) {
      const [source, target] = [join(from, name), join(to, name)];
      this.#files += 1;
      if (this.#files > mostFiles) throw failure(`the skills have more than ${mostFiles} files`);
      const found = await stat(source);
      if (found.isDirectory()) await this.folder(source, target);
      else if (found.isFile()) await copyFile(source, target);
      else throw failure(`${source} is neither a file nor a folder`);
    }
  }
}

function failure(message: string, cause?: unknown): McpvalsError {
  return new McpvalsError("agent/skills", message, { cause });
}
