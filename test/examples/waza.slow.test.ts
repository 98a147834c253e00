import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, linkPackage, root, runHere } from "../support/cli.ts";

const source = join(root, "examples/waza");

interface Run {
  readonly code: number | null;
  readonly result: RunResult;
  readonly journal: string;
}

/** Runs a copy of the example, with something of its eval replaced. */
async function run(
  replaced: Readonly<Record<string, string>> = {},
  ...flags: readonly string[]
): Promise<Run> {
  using folder = folderOf({});
  cpSync(source, folder.path, { recursive: true });
  linkPackage(folder.path, ["@modelcontextprotocol/server", "zod"]);
  const file = join(folder.path, "eval.yaml");
  let text = readFileSync(file, "utf8");
  for (const [from, to] of Object.entries(replaced)) {
    expect(text).toContain(from);
    text = text.replace(from, to);
  }
  writeFileSync(file, text);
  const { code, stdout } = await runHere(["run", "eval.yaml", "--reporter", "json", ...flags], {
    cwd: folder.path,
  });
  const result = JSON.parse(stdout) as RunResult;
  const journal = readFileSync(join(folder.path, ".mcpvals/runs", result.id, "journal.jsonl"), "utf8");
  return { code, result, journal };
}

function gradesOf({ result }: Run): string[] {
  return result.trials.map(({ task, attempt, verdict, score, grades }) => {
    const told = grades.flatMap(({ grader, verdict: each }) => (each === "skip" ? [] : `${grader} ${each}`));
    return `${task} ${attempt} ${verdict} ${score}: ${told.join(", ")}`;
  });
}

describe("the example of waza", () => {
  it("passes offline, each grader under its name, with one tracker for all but the task that changes it", async () => {
    const ran = await run();
    expect(gradesOf(ran)).toEqual([
      "duplicate 1 pass 1: few-calls pass, closes-one pass",
      "duplicate 2 pass 1: few-calls pass, closes-one pass",
      "look-up 1 pass 1: few-calls pass, expected.tool_calls pass, asks-the-tracker pass",
      "look-up 2 pass 1: few-calls pass, expected.tool_calls pass, asks-the-tracker pass",
      ...["should-trigger-1", "should-trigger-2", "should-not-trigger-1"].flatMap((task) =>
        [1, 2].map((attempt) => `${task} ${attempt} pass 1: trigger_accuracy pass`),
      ),
    ]);
    expect(ran.code).toBe(0);
    expect(ran.result.gates).toMatchObject([{ name: "trigger_accuracy", value: 1 }]);
    expect(ran.result.routing?.servers?.recall).toMatchObject({ tracker: { value: 1, trials: 4 } });
    const pids = ran.journal.match(/(?<="server\.started".*"pid":)\d+/g) ?? [];
    expect([pids.length, new Set(pids).size]).toEqual([10, 3]);
  });

  it("fails when an agent closes what it was only asked about", async () => {
    const ran = await run({
      "call: get_issue, args: { number: 17 }": "call: close_issue, args: { number: 17 }",
    });
    expect(ran.code).toBe(1);
    // The tool is hidden from the agent in this task; it failed, and must not even have been tried.
    expect(gradesOf(ran)[3]).toBe(
      "look-up 2 fail 0.16666666666666666: few-calls fail, expected.tool_calls fail, asks-the-tracker fail",
    );
  });

  it("fails when the agent does nothing", async () => {
    const ran = await run({}, "--agent", "null");
    expect(ran.code).toBe(1);
    const verdicts = ran.result.trials.map(({ verdict }) => verdict);
    // That it did not reach the tracker where it should not is not evidence.
    expect(verdicts).toEqual([...Array.from({ length: 8 }, () => "fail"), "skip", "skip"]);
  });
});
