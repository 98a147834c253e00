import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findSources } from "../../src/load/sources.ts";
import { readWorkspace } from "../../src/run/state-comparison.ts";
import { removeFolder } from "../../src/process/folders.ts";
import { folderOf } from "../support/cli.ts";
import { taskOf, verdictsOf } from "./task-verdicts.ts";

// Claim: a folder of any shape can be searched, or is refused with a reason, and a workspace of any shape is removed.
// docs/security.md, "Resource limits", "Files and the machine".

/** Finds what a folder with a file that many levels below it leads to. */
function search(levels: number, source: string): unknown {
  using folder = folderOf({});
  const deep = join(folder.path, ...Array.from({ length: levels }, () => "d"));
  mkdirSync(deep, { recursive: true });
  writeFileSync(join(deep, "task.yaml"), "kind: Task\n");
  try {
    const [found] = findSources([source], { cwd: folder.path, environment: {} });
    return found?.kind === "search" ? found.paths.length : found;
  } catch (error) {
    return error;
  }
}

describe.each([".", "**/*.yaml"])("a folder searched as %s", (source) => {
  it("may have a hundred levels", () => {
    expect(search(100, source)).toBe(1);
  });

  it("is refused when it has more, since a task could be lost", () => {
    expect(search(101, source)).toMatchObject({
      code: "config/unreadable",
      message: expect.stringContaining("folders more than 100 levels deep") as string,
    });
  });
});

/** A program that makes folders that no path reaches, and one that is closed, in the folder it is given. */
const shapes = `
const { chmodSync, mkdirSync } = require("node:fs");
const [start] = process.argv.slice(1);
process.chdir(start);
mkdirSync("closed/a", { recursive: true });
chmodSync("closed", 0);
for (let level = 0; level < 100; level += 1) {
  mkdirSync("d".repeat(200));
  process.chdir("d".repeat(200));
}`;

describe.skipIf(process.platform === "win32")("a folder that is deep, with one that is closed", () => {
  it("cannot be compared, and is removed", async () => {
    using folder = folderOf({});
    const path = join(folder.path, "work");
    mkdirSync(path);
    execFileSync(process.execPath, ["-e", shapes, path]);
    await expect(rm(path, { recursive: true })).rejects.toThrow("ENAMETOOLONG");
    await expect(readWorkspace(path, "workspace", new Map())).rejects.toMatchObject({
      code: "task/workspace",
      message: expect.stringMatching(/^cannot read all of workspace: /) as string,
    });
    await removeFolder(path);
    expect(existsSync(path)).toBe(false);
    await removeFolder(path);
  });

  it("does not turn what was found into an error", async () => {
    const run = `node shapes.js {workspace}; test -f nope`;
    const task = taskOf("t", { verify: [{ command: { run } }] });
    const { t } = await verdictsOf({ "t.json": task, "shapes.js": shapes.replace("slice(1)", "slice(2)") });
    expect(t).toMatch(/^fail: /);
  });
});
