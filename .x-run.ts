import { resolve } from "node:path";
import { FileProblems } from "./src/config/file-problems.ts";
import { readTasks } from "./src/config/tasks/read-tasks.ts";
import { collectTasks, parseTasks } from "./src/config/tasks/parse-tasks.ts";
import { run } from "./src/run.ts";
const files = process.argv.slice(2).map((f) => resolve(f));
const problems = new FileProblems();
const env: Record<string, string> = Object.fromEntries(Object.entries(process.env).filter((e) => e[1] !== undefined)) as Record<string, string>;
const surroundings = { cwd: process.cwd(), environment: env, overrides: {}, agents: [], allowOutside: false, timeoutMs: 5000 };
const read = await readTasks(files, { cwd: process.cwd(), problems });
const parsed = parseTasks(read, { surroundings, servers: [], inheritEnv: [], extensions: [], problems });
const tasks = collectTasks(parsed, { surroundings, problems });
try { problems.throwIfAny([]); } catch (e: any) {
  for (const d of e.details?.diagnostics ?? [e]) console.log(d.location ? `${d.location.file}:${d.location.line}:${d.location.column}` : "", d.message, d.hint ?? "");
}
for (const n of tasks.notes) console.log("note", n);
const t0 = performance.now();
const { result } = await run({ eval: { name: "x", servers: {}, agents: [{ type: "null", name: "null" }, { type: "oracle", name: "oracle" }], tasks: tasks.tasks, trials: 1, concurrency: 3, limits: { trialMs: 60000, callMs: 10000, modelMs: 1000 }, reporters: [], taskServers: tasks.taskServers }, secrets: [], env, overrides: {} } as any, { cwd: "/tmp/w", output: "/tmp/w/runs", compareState: true });
for (const t of result.trials) {
  const want = t.agent === "null" ? "fail" : "pass";
  console.log(t.verdict === want ? "ok  " : "BAD ", t.task, t.agent, t.verdict, `${t.durationMs}ms`, t.error ? JSON.stringify(t.error).slice(0, 1500) : "", ...(t.warnings ?? []));
  if (t.verdict !== want || process.env["V"]) for (const g of t.grades) console.log("     ", g.grader, g.verdict, g.reason);
}
console.log(JSON.stringify(result.summary), Math.round(performance.now() - t0), result.id);
