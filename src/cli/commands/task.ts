import { type Command, Option } from "commander";
import { visibleJson, visibleText } from "../../core/text/visible-text.ts";
import { exportFile } from "../../load/export-file.ts";
import { type SetExitCode, subcommand } from "../flags.ts";
import { fileOutput, workingFolder, writeError, writeJson } from "../terminal.ts";

/** `mcpvals task`: commands for a single task. */
export function define(command: Command, setExitCode: SetExitCode): void {
  subcommand(command, "export", "print a task as one document: prompt, steps, files and their hashes")
    .argument("<file>", "a file of kind Task")
    .addOption(
      new Option("-f, --format <format>", "format of the document").choices(["json"]).default("json"),
    )
    .option("-o, --out <file>", "write it to this file instead of stdout")
    .option("--allow-outside", "allow paths outside the task's folder")
    .action(async (file: string, flags: TaskExportFlags) => setExitCode(await exportTask(file, flags)));
}

/** The flags of `task export` as commander gives them. */
interface TaskExportFlags {
  readonly format: "json";
  readonly out?: string;
  readonly allowOutside?: boolean;
}

/** Returns the exit code. Throws McpvalsError of kind `usage`. */
async function exportTask(file: string, { allowOutside = false, out }: TaskExportFlags): Promise<number> {
  const { document, notes } = await exportFile(file, { cwd: workingFolder(), allowOutside });
  for (const note of notes) writeError(visibleText(`note: ${note}`));
  if (out === undefined) writeJson(document, 2);
  else {
    const output = fileOutput(out);
    output.write(`${visibleJson(JSON.stringify(document, undefined, 2))}\n`);
    output.close();
  }
  return 0;
}
