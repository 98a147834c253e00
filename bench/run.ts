import { callThroughput } from "./call-throughput.ts";
import { dashboardDocuments } from "./dashboard-documents.ts";
import { dashboardPages } from "./dashboard-pages.ts";
import { extensionCalls } from "./extension-calls.ts";
import { gatewayLatency } from "./gateway.ts";
import { grading } from "./grading.ts";
import { helpTime } from "./help-time.ts";
import type { Row } from "./measure.ts";
import { modelConcurrency } from "./model-concurrency.ts";
import { taskLoad } from "./task-load.ts";
import { toolTestTime } from "./tool-test-time.ts";
import { trialMemory } from "./trial-memory.ts";
import { trialOverhead } from "./trial-overhead.ts";

/** Every budget, one line each; `npm run bench -- NAME` measures the named ones only. */
const benches: Readonly<Record<string, () => Promise<readonly Row[]>>> = {
  "tool-test": toolTestTime,
  calls: callThroughput,
  extensions: extensionCalls,
  gateway: gatewayLatency,
  trials: trialOverhead,
  memory: trialMemory,
  tasks: taskLoad,
  model: modelConcurrency,
  grading,
  dashboard: dashboardPages,
  "dashboard-documents": dashboardDocuments,
  help: helpTime,
};

const chosen = process.argv.slice(2);
const rows: Row[] = [];
for (const [name, bench] of Object.entries(benches)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue;
  process.stderr.write(`measuring ${name} …\n`);
  rows.push(...(await bench()));
}
console.table(rows.map((row) => ({ ...row, holds: row.holds ? "yes" : "NO" })));
process.exit(rows.every((row) => row.holds) ? 0 : 1);
