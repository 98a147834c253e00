import { exportFile } from "../load/export-file.ts";
import { visibleJson, visibleText } from "../core/text/visible-text.ts";
import { fileOutput, workingFolder, writeError, writeJson } from "./terminal.ts";

/** The flags of `task export` as commander gives them. */
export interface TaskExportFlags {
  readonly format: "json";
  readonly out?: string;
  readonly allowOutside?: boolean;
}

/** Carries out `mcpvals task export` and gives the exit code. Throws McpvalsError of kind `usage`. */
export async function executeTaskExport(file: string, flags: TaskExportFlags): Promise<number> {
  const options = { cwd: workingFolder(), allowOutside: flags.allowOutside ?? false };
  const { document, notes } = await exportFile(file, options);
  for (const note of notes) writeError(visibleText(`note: ${note}`));
  if (flags.out === undefined) writeJson(document, 2);
  else {
    const output = fileOutput(flags.out);
    output.write(`${visibleJson(JSON.stringify(document, undefined, 2))}\n`);
    output.close();
  }
  return 0;
}
