import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { getHeapStatistics } from "node:v8";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Plan } from "../../src/model/plan.ts";
import type { RunResult } from "../../src/model/result.ts";
import { readJournal } from "../../src/store/journal.ts";
import type { RunHead } from "../../src/model/result.ts";
import { readResultByTrial, readResultHead } from "../../src/store/run-files.ts";
import { createRunFolder, readRun } from "../../src/store/run-folder.ts";
import { TrialEvents, toolTestTask } from "../support/trial-events.ts";

let home: string;
let runs: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "mcpvals-store-"));
  runs = join(home, ".mcpvals", "runs");
});
afterEach(() => rm(home, { recursive: true }));

const task = toolTestTask({ result: 5 });
const plan: Plan = {
  schema: "mcpvals.plan/1",
  name: "sums",
  agents: [],
  tasks: [task],
  trials: [{ id: "t1", task: task.name, agent: null, attempt: 1 }],
  concurrency: 1,
};
const { events } = new TrialEvents().begin(task.name).server("calc");

function head(id: string): RunHead {
  const environment = { mcpvals: "0.1.0", node: "24.0.0", platform: "any", agents: [], servers: {} };
  return { id, startedAt: "2026-11-21T22:45:59.000Z", environment };
}

function result(id: string, verdict: RunResult["verdict"] = "pass"): RunResult {
  const summary = { total: 0, pass: 0, fail: 0, error: 0, timeout: 0, skip: 0 };
  return {
    schema: "mcpvals.result/1",
    ...head(id),
    name: "sums",
    verdict,
    durationMs: 41,
    summary,
    trials: [],
  };
}

interface WriteOptions {
  readonly id?: string;
  readonly verdict?: RunResult["verdict"];
  /** Leave the run as a killed process does. */
  readonly cutOff?: boolean;
}

async function write(options: WriteOptions = {}): Promise<string> {
  const { id = "20261121-224559-3f9a2c", verdict, cutOff = false } = options;
  await using folder = await createRunFolder(runs, head(id), plan);
  for (const event of events) folder.append(event, JSON.stringify(event));
  await folder.commit();
  if (!cutOff) await folder.finish(result(id, verdict));
  return folder.path;
}

describe("a run's folder", () => {
  it("gives back what was written", async () => {
    const folder = await write();
    expect(await readRun(runs, "latest")).toEqual({
      ...head("20261121-224559-3f9a2c"),
      process: { pid: process.pid, host: hostname() },
      folder,
      plan,
      events,
      torn: false,
      durationMs: 41,
      interrupted: false,
    });
    expect((await readdir(folder)).toSorted()).toEqual([
      "journal.jsonl",
      "plan.json",
      "result.json",
      "run.json",
    ]);
    expect(JSON.parse(await readFile(join(folder, "result.json"), "utf8"))).toEqual(
      result("20261121-224559-3f9a2c"),
    );
  });

  it("tells how the run ended, if it did", async () => {
    await write({ id: "20261121-000001-aaaaaa", verdict: "interrupted" });
    await write({ id: "20261121-000002-aaaaaa", cutOff: true });
    expect(await readRun(runs, "20261121-000001")).toMatchObject({ interrupted: true });
    const cutOff = await readRun(runs, "latest");
    expect([cutOff.durationMs, cutOff.interrupted]).toEqual([undefined, undefined]);
  });

  it("has a result that is read some trials at a time", async () => {
    const trials = Array.from({ length: 2000 }, (_, index): RunResult["trials"][number] => {
      const [id, name] = [`t${index + 1}`, `${"ü".repeat(1 + (index % 150))} }\n  ],\n`];
      // One is longer than what is read at once.
      const grade = {
        grader: "text",
        verdict: "pass",
        score: 1,
        reason: "é".repeat(index === 1500 ? 200_000 : 9),
      };
      return {
        id,
        task: name,
        form: "workflow",
        agent: null,
        attempt: 1,
        verdict: "pass",
        score: 1,
        durationMs: 1,
        grades: [{ ...grade, verdict: "pass", evidence: [1, 2] }],
      };
    });
    const { environment, ...first } = result("20261121-000001-aaaaaa");
    const written = { ...first, trials, maxWarnings: 1, environment };
    await using folder = await createRunFolder(runs, head(written.id), plan);
    await folder.finish(written);
    const read: unknown[] = [];
    let calls = 0;
    const rest = await readResultByTrial(folder.path, (some) => {
      calls += 1;
      for (const trial of some) read.push(trial);
    });
    expect(rest).toEqual({ ...written, trials: [] });
    expect(read).toEqual(trials);
    expect(calls).toBeGreaterThan(5);
    expect(readResultHead(folder.path).durationMs).toBe(41);

    const file = join(folder.path, "result.json");
    const text = await readFile(file, "utf8");
    // As another program writes it: in one line, with the trials at the end.
    await writeFile(file, JSON.stringify(written));
    const [whole, last]: unknown[][] = [[], []];
    expect(await readResultByTrial(folder.path, (some) => whole?.push(...some))).toEqual(rest);
    expect(whole).toEqual(trials);
    await writeFile(file, JSON.stringify({ ...first, trials }, undefined, 2));
    expect(await readResultByTrial(folder.path, (some) => last?.push(...some))).toEqual({
      ...first,
      trials: [],
    });
    expect(last).toEqual(trials);
    await writeFile(file, text.slice(0, text.length / 2));
    await expect(readResultByTrial(folder.path, () => undefined)).rejects.toMatchObject({
      code: "store/corrupt",
      message: expect.stringContaining("it ends within its list of trials") as string,
    });
  });

  it("is kept out of git, unless the user has decided that", async () => {
    await write({ id: "20261121-000001-aaaaaa" });
    const file = join(home, ".mcpvals", ".gitignore");
    expect(await readFile(file, "utf8")).toBe("*\n");
    await writeFile(file, "# mine\n");
    await write({ id: "20261121-000002-aaaaaa" });
    expect(await readFile(file, "utf8")).toBe("# mine\n");
    runs = join(home, "elsewhere");
    await write();
    expect(await readdir(home)).toEqual([".mcpvals", "elsewhere"]);
  });

  it("belongs to one run only", async () => {
    await write();
    await expect(write()).rejects.toMatchObject({ code: "store/unwritable", cause: { code: "EEXIST" } });
  });

  it("that cannot be made is the user's to know", async () => {
    await writeFile(join(home, ".mcpvals"), "in the way");
    await expect(write()).rejects.toMatchObject({
      code: "store/unwritable",
      message: expect.stringContaining(
        `the run cannot be written to ${join(runs, "20261121-224559-3f9a2c")}: E`,
      ),
      details: {
        hint: "Make the folder writable, or choose another one: run, check and grade have --output DIR.",
      },
    });
  });
});

describe("finding a run", () => {
  beforeEach(async () => {
    await write({ id: "20261121-000001-aaaaaa" });
    await write({ id: "20261121-000002-bbbbbb" });
    await mkdir(join(runs, "20261121-000003-cccccc"));
    await mkdir(join(runs, "zzz"));
  });

  it.each([
    ["the latest that has begun", "latest", "20261121-000002-bbbbbb"],
    ["an id", "20261121-000001-aaaaaa", "20261121-000001-aaaaaa"],
    ["the start of an id", "20261121-000001", "20261121-000001-aaaaaa"],
  ])("by %s", async (_, name, id) => {
    expect((await readRun(runs, name)).id).toBe(id);
  });

  it("by the path of its folder", async () => {
    expect((await readRun(home, join(runs, "20261121-000001-aaaaaa"))).id).toBe("20261121-000001-aaaaaa");
  });

  it.each(["20261121", "", "nonsense", "20261121-000003-cccccc"])(
    "that %j does not name says what there is",
    async (name) => {
      await expect(readRun(runs, name)).rejects.toMatchObject({
        code: "store/not-found",
        message: `no single run matches "${name}" in ${runs}`,
        details: { hint: "There are, newest first: 20261121-000002-bbbbbb, 20261121-000001-aaaaaa" },
      });
    },
  );

  it("where there are none says so", async () => {
    await expect(readRun(join(home, "nowhere"), "latest")).rejects.toMatchObject({
      code: "store/not-found",
      details: { hint: "There are no runs there yet." },
    });
    await expect(readRun(join(home, ".mcpvals", ".gitignore"), "latest")).rejects.toMatchObject({
      code: "store/not-found",
      message: expect.stringContaining("cannot be listed: ENOTDIR"),
    });
  });
});

describe("a damaged folder", () => {
  it.each(["run.json", "journal.jsonl"])("without %s is told", async (name) => {
    const folder = await write();
    await rm(join(folder, name));
    await expect(readRun(runs, "latest")).rejects.toMatchObject({
      code: "store/corrupt",
      message: expect.stringContaining("cannot be read: ENOENT"),
    });
  });

  it.each(["run.json", "plan.json", "result.json", "journal.jsonl"])(
    "with a changed %s is told",
    async (name) => {
      const folder = await write();
      await appendFile(join(folder, name), "}\n");
      await expect(readRun(runs, "latest")).rejects.toMatchObject({ code: "store/corrupt" });
    },
  );

  it.each(["run.json", "plan.json", "result.json"])("with other JSON in %s is told", async (name) => {
    const folder = await write();
    for (const other of ["null", "[]", "{}", '"text"', '{"trials":[]}']) {
      await writeFile(join(folder, name), other);
      await expect(readRun(runs, "latest")).rejects.toMatchObject({
        code: "store/corrupt",
        message: `${name} in ${folder} cannot be read: it is not a document of a run`,
      });
    }
  });

  it("whose journal is larger than the memory is refused", async () => {
    const folder = await write();
    await truncate(join(folder, "journal.jsonl"), getHeapStatistics().heap_size_limit / 4 + 1000);
    await expect(readRun(runs, "latest")).rejects.toMatchObject({
      code: "store/corrupt",
      message: "the run is too large to read into memory",
    });
  });

  it("with half a last line is read without it", async () => {
    const folder = await write({ cutOff: true });
    await appendFile(join(folder, "journal.jsonl"), '{"crc":"00');
    expect(await readRun(runs, "latest")).toMatchObject({ events, torn: true });
  });
});

it("loses no finished trial when the process is killed at any moment", { repeats: 4 }, async () => {
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, "..", "fixtures", "endless-journal.ts"), home],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  let told = 0;
  const lines = createInterface(child.stdout).on("line", (line) => {
    told = Number(line);
    if (told >= 20) child.kill("SIGKILL");
  });
  await Promise.all([once(child, "exit"), once(lines, "close")]);
  const trials = new Map<string, number>();
  for (const event of (await readJournal(home)).events)
    trials.set(event.trial, (trials.get(event.trial) ?? 0) + 1);
  for (let trial = 1; trial <= told; trial += 1) expect(trials.get(`t${trial}`)).toBe(2);
});
