import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { folderOf, root, runCli } from "../support/cli.ts";

const folder = join(root, "examples/extensions");
const task = join(folder, "price-list.yaml");

/** Of all that the runs write beside their results. */
const temp = folderOf({});
const env = { TMPDIR: temp.path };
afterAll(() => temp[Symbol.dispose]());

/** Runs the example with another config, and gives its only trial. */
async function trialWith(from: string, to: string): Promise<TrialResult> {
  using copy = folderOf({});
  cpSync(folder, copy.path, { recursive: true });
  const file = join(copy.path, "mcp-eval.config.yaml");
  const config = readFileSync(file, "utf8");
  if (!config.includes(from)) throw new Error(`the config has no ${from}`);
  writeFileSync(file, config.replace(from, to));
  const { stdout, stderr } = await runCli(["run", ".", "--reporter", "json"], { cwd: copy.path, env });
  if (!stdout.startsWith("{")) throw new Error(`no result:\n${stdout}\n${stderr}`);
  const [trial] = (JSON.parse(stdout) as RunResult).trials;
  if (trial === undefined) throw new Error(`no trial:\n${stdout}`);
  return trial;
}

const hasBubblewrap =
  process.platform === "linux" &&
  spawnSync("bwrap", ["--unshare-all", "--ro-bind", "/", "/", "true"]).status === 0;
if (!hasBubblewrap) console.warn("no bubblewrap here, so that the example is not tried in it");

function reasons({ grades }: TrialResult): readonly string[] {
  return grades.flatMap(({ verdict, reason }) => (verdict === "pass" ? [] : [reason]));
}

describe("the example with extensions", () => {
  it("is proven: nobody passes by doing nothing, the solution does, and all is left as it was", async () => {
    const { code, stdout } = await runCli(["validate", task, "--run"], { cwd: temp.path, env });
    expect([code, stdout]).toEqual([0, expect.stringMatching(/price-list +fails +passes +restored/)]);
  });

  it("passes with its scripted agent, also when that works in another order", async () => {
    const trial = await trialWith("name <> 'tea'", "name <> 'tea' ORDER BY id DESC");
    expect([trial.verdict, reasons(trial), trial.warnings]).toEqual(["pass", [], undefined]);
  });

  it("shows the rows that are wrong", async () => {
    const trial = await trialWith("SET cents = 850", "SET cents = 855");
    expect(trial.verdict).toBe("fail");
    expect(reasons(trial).join("\n")).toContain(`-  2   "coffee"       850\n+  2   "coffee"       855`);
  });

  it("fails, and is not an error, when the agent loses the table", async () => {
    const from = `execute_write_query
          args: { query: UPDATE products SET cents = 600 WHERE name = 'cocoa; dark' }`;
    const trial = await trialWith(
      from,
      "drop_table\n          args: { table_name: price_changes, table: price_changes }",
    );
    expect(trial.verdict).toBe("fail");
    expect(reasons(trial).join("\n")).toContain("no such table: price_changes");
  });

  it.skipIf(!hasBubblewrap)("passes with its extensions confined (needs bubblewrap)", async () => {
    const trial = await trialWith("timeout: 30s", "timeout: 30s\n  sandbox: process");
    expect([trial.verdict, trial.error]).toEqual(["pass", undefined]);
  });

  it("leaves no folder behind", () => {
    expect(readdirSync(temp.path).filter((name) => name.startsWith("mcpvals-"))).toEqual([]);
  });
});
