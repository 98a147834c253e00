import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { load } from "../src/formats/load.ts";
import { prepare } from "../src/run/prepare.ts";
import { run } from "../src/run/run.ts";
import type { Row } from "./measure.ts";

const files = 1000;

/** A folder of small task files: how long it takes to load it, and whether running it takes time by its size. */
export async function taskLoad(): Promise<readonly Row[]> {
  const loading = await withTasks(files, (folder) => time(() => loadAll(folder)));
  await runAll(files / 10);
  const small = Math.min(await runAll(files), await runAll(files));
  const large = Math.min(await runAll(2 * files), await runAll(2 * files));
  return [
    {
      name: `loading ${files} task files, first time`,
      measured: `${loading.toFixed(0)} ms`,
      floor: "-",
      target: "under 1 s",
      holds: loading < 1000,
    },
    {
      name: "running them with the null agent",
      measured: `${files}: ${(small / files).toFixed(2)} ms, ${2 * files}: ${(large / (2 * files)).toFixed(2)} ms of processor time a task`,
      floor: "-",
      target: "linear",
      holds: large <= small * 2 * 1.25,
    },
  ];
}

function loadAll(folder: string): ReturnType<typeof load> {
  return load({ sources: [folder], cwd: folder, agents: ["null"] });
}

function runAll(count: number): Promise<number> {
  return withTasks(count, async (folder) => {
    const loaded = prepare(await loadAll(folder), {});
    return processorTime(async () => {
      const { result } = await run(loaded, { cwd: folder });
      if (result.summary.total !== count) throw new Error(`ran ${result.summary.total} of ${count} tasks`);
      if (result.verdict !== "pass") throw new Error(`the verdict is ${result.verdict}`);
    });
  });
}

/** Milliseconds of processor time: how a file system takes thousands of small folders differs from minute to minute. */
async function processorTime(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

async function time(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

async function withTasks<T>(count: number, work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  try {
    mkdirSync(join(folder, "tasks"));
    for (let index = 1; index <= count; index += 1) {
      writeFileSync(join(folder, "tasks", `task-${index}.yaml`), taskText(index));
    }
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function taskText(index: number): string {
  return `apiVersion: mcp-eval/v1
kind: Task
metadata:
  name: task ${index}
spec:
  prompt: Leave everything as it is.
  verify:
    - file:
        path: task-${index}.yaml
        expect: { contains: "task ${index}" }
`;
}
