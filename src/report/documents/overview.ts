import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { version } from "../../base/version.ts";
import type { RunResult } from "../../model/result.ts";
import { readDocument, writeJson } from "../../store/run-folder.ts";
import { EndedTrials, type RunOverview } from "./run-document.ts";

const file = "overview.json";

/** What is shown of a run, beside its result. */
interface StoredOverview {
  /** The version of mcpvals that wrote it. */
  readonly mcpvals: string;
  /** Size of the result that it was made of, in bytes. */
  readonly resultBytes: number;
  readonly run: RunOverview;
}

/**
 * Writes what the dashboard shows of a run into the folder that has its result: to make it again takes a second for 100,000 trials. Where it
 * cannot be written, as on a full disk, there is none. Never rejects because of that.
 */
export async function writeOverview(folder: string, result: RunResult): Promise<void> {
  const trials = new EndedTrials();
  trials.addAll(result.trials);
  const overview: StoredOverview = {
    mcpvals: version,
    resultBytes: statSync(join(folder, "result.json")).size,
    run: trials.overview(result),
  };
  await writeJson(folder, file, overview).catch(() => {
    for (const name of [file, `${file}.part`]) rmSync(join(folder, name), { force: true });
  });
}

/** Undefined where there is none, where it is damaged, where another version wrote it, and where the result was written after it. */
export function readOverview(folder: string): RunOverview | undefined {
  const stats = statSync(join(folder, file), { throwIfNoEntry: false });
  if (stats === undefined) return undefined;
  const result = statSync(join(folder, "result.json"));
  if (result.mtimeMs > stats.mtimeMs) return undefined;
  try {
    const { mcpvals, resultBytes, run } = readDocument<StoredOverview>(folder, file, ["mcpvals", "run"]);
    return mcpvals === version && resultBytes === result.size ? run : undefined;
  } catch {
    return undefined;
  }
}
