import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { taskFiles } from "../../src/load/tasks.ts";
import { folderOf } from "../support/cli.ts";

/** A task's folder beside one that it may not see, with links between them. */
function world(): Disposable & { readonly path: string; readonly dir: string } {
  const folder = folderOf({ "task/a.txt": "text", "task/sub/b.txt": "b", "task2/c.txt": "c" });
  const dir = join(folder.path, "task");
  symlinkSync(join("..", "task2"), join(dir, "away"));
  symlinkSync("a.txt", join(dir, "alias"));
  symlinkSync("nowhere", join(dir, "dangling"));
  symlinkSync("loop", join(dir, "loop"));
  writeFileSync(join(dir, "latin.txt"), Buffer.from("caf\xe9", "latin1"));
  mkdirSync(join(dir, "..odd"));
  return { ...folder, path: folder.path, dir, [Symbol.dispose]: () => folder[Symbol.dispose]() };
}

it.each([
  ["a.txt", "file"],
  ["./sub/../a.txt", "file"],
  ["sub", "folder"],
  [".", "folder"],
  ["..odd", "folder"],
  ["alias", "file"],
  ["nothing", "nothing"],
  ["a.txt/x", "nothing"],
  ["dangling", "nothing"],
  ["loop", "nothing"],
  ["..", "outside"],
  ["../task2/c.txt", "outside"],
  ["away/c.txt", "outside"],
  ["away/not/there", "outside"],
  ["/etc/passwd", "outside"],
])("sees at %s: %s", (path, expected) => {
  using folder = world();
  expect(taskFiles(folder.dir, { allowOutside: false }).look(path)).toBe(expected);
});

it("sees what is outside when that is allowed", () => {
  using folder = world();
  const files = taskFiles(folder.dir, { allowOutside: true });
  expect([files.look("away/c.txt"), files.read("../task2/c.txt")]).toEqual(["file", "c"]);
});

it("sees inside a folder that is itself reached through a link", () => {
  using folder = world();
  symlinkSync("task", join(folder.path, "linked"));
  expect(taskFiles(join(folder.path, "linked"), { allowOutside: false }).read("a.txt")).toBe("text");
});

it("reads text and nothing else", () => {
  using folder = world();
  const files = taskFiles(folder.dir, { allowOutside: false });
  expect(files.read("a.txt")).toBe("text");
  for (const path of ["sub", "nothing", "latin.txt", "away/c.txt"]) {
    expect([path, files.read(path)]).toEqual([path, undefined]);
  }
});
