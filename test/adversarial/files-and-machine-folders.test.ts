import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findSources } from "../../src/config/sources/find-sources.ts";
import { folderOf } from "../support/cli.ts";

// Claim: a folder of any shape can be searched, or is refused with a reason. docs/security.md, "Limits".

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
