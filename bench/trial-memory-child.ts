import { timeTrials } from "./trial-overhead.ts";

await timeTrials(1000);
globalThis.gc?.();
const before = process.memoryUsage().rss;
let peak = before;
const watch = setInterval(() => {
  peak = Math.max(peak, process.memoryUsage().rss);
}, 20);
await timeTrials(100_000);
clearInterval(watch);
process.stdout.write(String((peak - before) / 1024 / 1024));
