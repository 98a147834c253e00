import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "../support/cli.ts";

const read = (file: string): string => readFileSync(join(root, file), "utf8");
const linesOf = (text: string): number => text.trimEnd().split("\n").length;

it.each(["hard-blue-green-switch", "hard-healthy-rollout", "hard-tenant-onboarding"])(
  "the sizes of %s in the docs are those of its files",
  (name) => {
    const task = read(`examples/tasks/${name}.yaml`);
    const solution = linesOf(task.slice(task.indexOf("  solution:\n")));
    const shell = linesOf(read(`examples/tasks/shell/${name}.sh`));
    const row = read("docs/tasks.md")
      .split("\n")
      .find((line) => line.startsWith(`| \`${name}\``));
    expect(row?.split("|").slice(2, 5).map(Number)).toEqual([linesOf(task) - solution, linesOf(task), shell]);
    expect(task).not.toMatch(/^\s*- (?:script|command):/m);
  },
);
