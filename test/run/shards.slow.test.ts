import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, type HereOutcome, runHere } from "../support/cli.ts";

const names = ["a", "b", "c", "d", "e"];

/** Five tool tests, one of which fails; it passes with four. */
const config = (expected = "wrong"): object => ({
  server: fixtureServer(),
  thresholds: { passRate: 0.8 },
  toolHealthSuites: [
    {
      name: "suite",
      tests: names.map((name) => ({
        name: "echo",
        description: name,
        args: { message: name },
        expectedResult: name === "c" ? expected : name,
      })),
    },
  ],
});

interface Ran extends HereOutcome {
  readonly result: RunResult;
}

async function ran(cwd: string, ...args: readonly string[]): Promise<Ran> {
  const outcome = await runHere([...args, "--reporter", "json"], { cwd });
  return { ...outcome, result: JSON.parse(outcome.stdout) as RunResult };
}

const files = (rest: object = config()) => ({ "mcp-eval.config.json": rest });

const rowsOf = ({ trials }: RunResult): unknown =>
  trials.map(({ id, task, verdict, score, grades }) => ({ id, task, verdict, score, grades }));

it("the parts of a run together are the run, with its thresholds", async () => {
  using folder = folderOf(files());
  const { path } = folder;
  const whole = await ran(path, "run", "--output", "whole", "--trials", "2");
  const parts: Ran[] = [];
  for (const part of ["1/2", "2/2"])
    parts.push(await ran(path, "run", "--shard", part, "--output", "parts", "--trials", "2"));
  expect(parts.map(({ result }) => result.trials.length)).toEqual([6, 4]);
  // What holds for all of them is decided at the end.
  expect(parts.map(({ code, result }) => [code, result.gates])).toEqual([
    [1, undefined],
    [0, undefined],
  ]);
  const merged = await ran(path, "merge", "parts");
  expect([merged.code, merged.result.verdict]).toEqual([whole.code, whole.result.verdict]);
  expect(merged.code).toBe(0);
  expect(merged.result.gates).toEqual(whole.result.gates);
  expect(merged.result.summary).toEqual(whole.result.summary);
  expect(rowsOf(merged.result)).toEqual(rowsOf(whole.result));
  const shown = await runHere(["show", "latest", "--reporter", "json"], { cwd: path });
  expect(rowsOf(JSON.parse(shown.stdout) as RunResult)).toEqual(rowsOf(whole.result));
});

it("parts that are missing, twice, of another number, or no parts are refused", async () => {
  using folder = folderOf(files());
  const { path } = folder;
  const run = (part: readonly string[], output: string) =>
    runHere(["run", ...part, "--output", output, "--quiet"], { cwd: path });
  await run(["--shard", "1/2"], "one");
  await run(["--shard", "2/3"], "other");
  await run([], "whole");
  const merge = async (...runs: readonly string[]) => {
    const { code, stderr } = await runHere(["merge", ...runs], { cwd: path });
    return [code, stderr];
  };
  expect(await merge("one")).toEqual([2, expect.stringContaining("part 2 of 2 is missing")]);
  expect(await merge("one", "one")).toEqual([2, expect.stringContaining("are both part 1 of 2")]);
  expect(await merge("one", "other")).toEqual([2, expect.stringContaining("not parts of the same run")]);
  expect(await merge("whole")).toEqual([2, expect.stringContaining("ran without --shard")]);
  expect(await merge("nowhere")).toEqual([2, expect.stringContaining("nowhere")]);
  expect(readdirSync(path)).not.toContain(".mcpvals");
});

it("parts of different files are refused", async () => {
  using folder = folderOf(files());
  const { path } = folder;
  await runHere(["run", "--shard", "1/2", "--output", "parts", "--trials", "1"], { cwd: path });
  writeFileSync(
    join(path, "mcp-eval.config.json"),
    JSON.stringify({ ...config(), server: fixtureServer("--linger=1") }),
  );
  await runHere(["run", "--shard", "2/2", "--output", "parts", "--trials", "1"], { cwd: path });
  const { code, stderr } = await runHere(["merge", "parts"], { cwd: path });
  expect([code, stderr]).toEqual([2, expect.stringContaining("this has changed: the servers")]);
});

it("parts of different selections, and of files with other tasks, are refused", async () => {
  using folder = folderOf(files());
  const { path } = folder;
  const part = (args: readonly string[], output: string) =>
    runHere(["run", ...args, "--output", output, "--quiet"], { cwd: path });
  const merge = async (output: string) => {
    const { code, stderr } = await runHere(["merge", output], { cwd: path });
    return [code, stderr];
  };
  const refused = [2, expect.stringContaining("not parts of the same run")];
  const select = (letters: string) => [...letters].flatMap((letter) => ["--task", `*${letter}*`]);
  await part([...select("ab"), "--shard", "1/2"], "selected");
  await part([...select("de"), "--shard", "2/2"], "selected");
  expect(await merge("selected")).toEqual(refused);
  await part(["--shard", "1/2"], "renamed");
  const { toolHealthSuites } = config() as { toolHealthSuites: { name: string }[] };
  const renamed = toolHealthSuites.map((suite) => ({ ...suite, name: "another" }));
  writeFileSync(
    join(path, "mcp-eval.config.json"),
    JSON.stringify({ ...config(), toolHealthSuites: renamed }),
  );
  await part(["--shard", "2/2"], "renamed");
  expect(await merge("renamed")).toEqual(refused);
});

it.each(["0/2", "3/2", "1", "one/two"])("--shard %s is refused", async (part) => {
  using folder = folderOf(files());
  const { code, stderr } = await runHere(["run", "--shard", part], { cwd: folder.path });
  expect([code, stderr]).toEqual([2, expect.stringContaining("such as 1/4")]);
});

it("a part without trials is incomplete by itself, and takes nothing from the others", async () => {
  using folder = folderOf(files());
  const { path } = folder;
  const codes: (number | null)[] = [];
  for (let part = 1; part <= 6; part += 1) {
    const args = ["run", "--shard", `${part}/6`, "--output", "parts", "--quiet"];
    codes.push((await runHere(args, { cwd: path })).code);
  }
  expect(codes).toEqual([0, 0, 1, 0, 0, 3]);
  const merged = await ran(path, "merge", "parts");
  expect([merged.code, merged.result.trials.map(({ verdict }) => verdict)]).toEqual([
    0,
    ["pass", "pass", "fail", "pass", "pass"],
  ]);
});
