import type { Row } from "./measure.ts";
import { timeTrials } from "./trial-overhead.ts";

/** Peak memory of a process that runs 100,000 trials, over what it had after the first thousand. */
export async function trialMemory(): Promise<readonly Row[]> {
  await timeTrials(1000);
  globalThis.gc?.();
  const before = process.memoryUsage().rss;
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 20);
  await timeTrials(100_000);
  clearInterval(watch);
  const megabytes = (peak - before) / 1024 / 1024;
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
