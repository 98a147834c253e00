import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Row } from "./measure.ts";

/** Peak memory of a process of its own that runs 100,000 trials, over what it had after the first thousand. */
export async function trialMemory(): Promise<readonly Row[]> {
  const child = join(import.meta.dirname, "trial-memory-child.ts");
  const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", child]);
  const megabytes = Number(stdout);
  return [
    {
      name: "memory at 100,000 trials",
      measured: `${megabytes.toFixed(0)} MB over start`,
      floor: "-",
      target: "under 150 MB",
      holds: megabytes < 150,
    },
  ];
}
