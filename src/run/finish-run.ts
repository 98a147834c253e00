import type { Plan } from "../model/plan.ts";
import type { RunResult } from "../model/result.ts";
import { isLargeJournal } from "../store/journal-file.ts";
import type { RunFolder } from "../store/run-folder.ts";

/** Finishes the folder of a run, and writes what the dashboard shows of a large one. Throws what went wrong on the way to the result, now or earlier. */
export async function finishRun(folder: RunFolder, result: RunResult, plan?: Plan): Promise<void> {
  await folder.finish(result, plan);
  if (!isLargeJournal(folder.path)) return;
  const { writeOverview } = await import("../report/documents/overview.ts");
  await writeOverview(folder.path, result);
}
