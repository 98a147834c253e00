import { fork } from "node:child_process";
import { callThroughput } from "./call-throughput.ts";
import { checkTime } from "./check-time.ts";
import { dashboardDocuments } from "./dashboard-documents.ts";
import { dashboardPages } from "./dashboard-pages.ts";
import { extensionCalls } from "./extension-calls.ts";
import { gatewayLatency } from "./gateway.ts";
import { grading } from "./grading.ts";
import { helpTime } from "./help-time.ts";
import type { Row } from "./measure.ts";
import { modelConcurrency } from "./model-concurrency.ts";
import { showTime } from "./show-time.ts";
import { taskLoad } from "./task-load.ts";
import { toolTestTime } from "./tool-test-time.ts";
import { trialMemory } from "./trial-memory.ts";
import { trialOverhead } from "./trial-overhead.ts";
import { workers } from "./workers.ts";

/** Every budget, one line each; `npm run bench -- NAME` measures the named ones only. */
const benches: Readonly<Record<string, () => Promise<readonly Row[]>>> = {
  "tool-test": toolTestTime,
  check: checkTime,
  calls: callThroughput,
  extensions: extensionCalls,
  gateway: gatewayLatency,
  trials: trialOverhead,
  memory: trialMemory,
  show: showTime,
  tasks: taskLoad,
  model: modelConcurrency,
  grading,
  dashboard: dashboardPages,
  "dashboard-documents": dashboardDocuments,
  help: helpTime,
  workers,
};

const chosen = process.argv.slice(2);
const unknown = chosen.find((name) => !(name in benches));
if (unknown !== undefined)
  throw new Error(`there is no bench "${unknown}"; there are ${Object.keys(benches).join(", ")}`);
if (process.send === undefined) {
  const rows: Row[] = [];
  for (const name of Object.keys(benches)) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    process.stderr.write(`measuring ${name} …\n`);
    rows.push(...(await measuredApart(name)));
  }
  console.table(rows.map((row) => ({ ...row, holds: row.holds ? "yes" : "NO" })));
  process.exitCode = rows.every((row) => row.holds) ? 0 : 1;
} else {
  const [name = ""] = chosen;
  const rows = await benches[name]?.();
  process.send(rows, () => process.exit());
}

/** Measures in a process of its own, so that the memory of one measurement does not slow the next one down. */
function measuredApart(name: string): Promise<readonly Row[]> {
  const child = fork(import.meta.filename, [name], { execArgv: ["--expose-gc"] });
  return new Promise((resolve, reject) => {
    child.on("message", (rows) => resolve(rows as readonly Row[]));
    child.on("exit", (code) => reject(new Error(`measuring ${name} ended with ${code} and without rows`)));
  });
}
