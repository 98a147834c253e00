import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { folderOf, root, runHere } from "../support/cli.ts";

// A run that version 0.1.0 recorded before runs could be resumed and before results had rates.
const sample = join(root, "test/fixtures/runs/before-resume");
const id = "20261128-152231-11c3629";

function withRun(): ReturnType<typeof folderOf> & { readonly run: string } {
  const folder = folderOf({});
  const run = join(folder.path, ".mcpvals/runs", id);
  mkdirSync(join(run, ".."), { recursive: true });
  cpSync(sample, run, { recursive: true });
  return { ...folder, run };
}

describe("a run of an older version", () => {
  it("is listed and shown, with its rates", async () => {
    using folder = withRun();
    const at = { cwd: folder.path };
    const listed = await runHere(["runs"], at);
    expect(listed.stdout).toMatch(/^20261128-152231-11c3629 {2}fail {2}2\/4 passed /);
    const shown = await runHere(["show"], at);
    expect([shown.code, shown.stderr]).toEqual([1, ""]);
    expect(shown.stdout).toContain("  counts        2/2  100 % (34 to 100)");
    expect(shown.stdout).toContain("  forgets       0/2  0 % (0 to 66)");
  });

  it("that has ended has nothing to resume or to try again", async () => {
    using folder = withRun();
    const at = { cwd: folder.path };
    expect(await runHere(["resume"], at)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("nothing to resume"),
    });
    expect(await runHere(["retry", "latest", "--errors"], at)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("There is nothing to try again."),
    });
  });

  it("that was cut off is shown, and is not resumed since nobody knows how it was started", async () => {
    using folder = withRun();
    const at = { cwd: folder.path };
    rmSync(join(folder.run, "result.json"));
    const journal = join(folder.run, "journal.jsonl");
    const before = readFileSync(journal, "utf8").slice(0, 9000);
    writeFileSync(journal, before);
    const shown = await runHere(["show"], at);
    expect([shown.code, shown.stderr]).toEqual([130, expect.stringContaining("last line is incomplete")]);
    expect(shown.stdout).toContain("1 cut off, 1 not run");
    const resumed = await runHere(["resume"], at);
    expect([resumed.code, resumed.stderr]).toEqual([
      2,
      expect.stringContaining("does not say how it was started"),
    ]);
    expect(readFileSync(journal, "utf8")).toBe(before);
  });
});
