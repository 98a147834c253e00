import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { PortableTask } from "../../src/model/task.ts";
import { createWorkspace } from "../../src/run/trial-state.ts";
import { folderOf } from "../support/cli.ts";

function task(dir: string, format: PortableTask["format"]): PortableTask {
  return {
    format,
    file: join(dir, "task.yaml"),
    dir,
    env: {},
    setup: [],
    cleanup: [],
    fixtures: ["a.txt", "sub/deep/b.txt"],
    requires: [],
    tags: [],
    labels: {},
    cleanupTimeoutMs: 1000,
    stateProbe: [],
    randomPorts: [],
    assertions: [],
    inheritEnv: [],
  };
}

it.each([
  ["waza", ["a.txt", "sub/deep/b.txt"]],
  ["mcp-eval/v1", ["a.txt", "b.txt"]],
] as const)(
  "files of a task of the format %s are copied to where its agent looks for them",
  async (format, names) => {
    using folder = folderOf({ "a.txt": "A", "sub/deep/b.txt": "B", "other.txt": "not listed" });
    const workspace = await createWorkspace(task(folder.path, format), false, new AbortController().signal);
    try {
      expect(workspace.fixtures).toEqual(names);
      expect(names.map((name) => readFileSync(join(workspace.path, name), "utf8"))).toEqual(["A", "B"]);
      expect(existsSync(join(workspace.path, "other.txt"))).toBe(false);
    } finally {
      await workspace.remove();
    }
    expect(existsSync(workspace.path)).toBe(false);
  },
);
