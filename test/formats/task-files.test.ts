import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { taskFiles } from "../../src/formats/tasks.ts";
import { folderOf } from "../support/cli.ts";
import { loadIn, problemsIn } from "./support/load.ts";

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

it("a task's graders see no file outside its folder, unless that is allowed; those of a config see all", async () => {
  const graders = [
    { type: "script", config: { file: "../own.mjs" } },
    { type: "prompt", config: { rubric_file: "rubric.txt" } },
  ];
  const files = {
    "own.mjs": "",
    "tasks/rubric.txt": "Is it right?",
    "tasks/task.json": {
      apiVersion: "mcp-eval/v1",
      kind: "Task",
      metadata: { name: "one" },
      spec: {
        prompt: "Do it.",
        verify: [{ file: { path: "{workspace}/a", expect: { exists: true } } }],
        graders,
      },
    },
    "evals/mcp-eval.config.json": {
      servers: { s: { transport: "stdio", command: "x" } },
      agent: { type: "scripted", plan: { one: [{ say: "done" }] } },
      tasks: ["../tasks/task.json"],
      graders: [{ type: "script", name: "shared", config: { file: "../own.mjs" } }],
    },
  };
  expect(await problemsIn(files, { source: "evals/mcp-eval.config.json" })).toEqual([
    expect.stringMatching(
      /^tasks\/task\.json:\d+:\d+ task\/outside spec\.graders\[0\]\.config\.file: "\.\.\/own\.mjs" lies outside/,
    ),
  ]);
  const { eval: spec } = await loadIn(files, { source: "evals/mcp-eval.config.json", allowOutside: true });
  expect(spec.tasks[0]?.graders?.map(({ name }) => name)).toEqual(["shared", "script", "prompt"]);
});
