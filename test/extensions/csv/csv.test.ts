import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Json } from "../../../src/base/json.ts";
import { folderOf, root } from "../../support/cli.ts";

const program = join(root, "extensions/csv/main.py");
const people = "name,age\nAda,36\nAlan,41\n";

type Run = (verb: "action" | "check", operation: string, args: Json) => Json;

/**
 * Runs operations as one shot in a workspace with files; that the exit code agrees is checked each time. What is told on
 * stderr instead of a result is the result.
 */
function inWorkspace(files: Record<string, string>, steps: (run: Run, workspace: string) => void): void {
  using folder = folderOf({});
  const workspace = join(folder.path, "workspace");
  mkdirSync(workspace);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(workspace, name), text);
  const input = join(folder.path, "input.json");
  const run: Run = (verb, operation, args) => {
    writeFileSync(input, JSON.stringify({ args, context: { workspace, workdir: folder.path, env: {} } }));
    const words = [program, verb, operation, "--input", input];
    const { stdout, stderr, status } = spawnSync("python3", words, { encoding: "utf8" });
    if (stdout === "") {
      expect(status).toBe(1);
      return stderr.trimEnd();
    }
    expect(stderr).toBe("");
    const result = JSON.parse(stdout) as { readonly success: boolean };
    expect(status).toBe(result.success ? 0 : 1);
    return { ...result };
  };
  steps(run, workspace);
}

test("write makes a table as CSV is quoted, which expect and count read back", () => {
  inWorkspace({}, (run, workspace) => {
    const rows = [
      ["Ada, Countess", 36, true],
      ['say "hi"', 1.5, null],
      ["two\nlines", "7", "ü"],
    ];
    const path = join(workspace, "new/t.csv");
    const write = { path: "new/t.csv", columns: ["name", "n", "flag"], rows };
    expect(run("action", "write", write)).toEqual({
      success: true,
      message: "wrote 3 rows to new/t.csv",
      outputs: { path },
    });
    expect(readFileSync(path, "utf8")).toBe(
      'name,n,flag\n"Ada, Countess",36,true\n"say ""hi""",1.5,\n"two\nlines",7,ü\n',
    );
    const cells = [
      { row: 1, column: "flag", value: true },
      { row: 2, column: "flag", value: null },
      { row: 3, column: "n", value: 7 },
    ];
    const columns = ["name", "n", "flag"];
    expect(run("check", "expect", { path: "new/t.csv", columns, cells })).toMatchObject({ success: true });
    expect(run("check", "count", { path: "new/t.csv", where: { flag: null }, equals: 1 })).toEqual({
      success: true,
      message: "new/t.csv has 1 such row",
      outputs: { count: "1" },
    });
  });
});

test("what does not hold is a finding that says what was found", () => {
  inWorkspace({ "people.csv": people, "none.csv": "", "bytes.csv": "a\n\u0000\n" }, (run) => {
    const path = "people.csv";
    const findings: [string, Json, string][] = [
      ["count", { path, equals: 3 }, "people.csv has 2 rows, expected 3"],
      ["count", { path, atLeast: 3 }, "people.csv has 2 rows, expected at least 3"],
      [
        "count",
        { path, where: { name: "Bo" }, atLeast: 1 },
        "people.csv has 0 such rows, expected at least 1",
      ],
      ["count", { path, where: { nam: "Bo" }, equals: 0 }, "there is no column nam; there are name, age"],
      ["expect", { path, columns: ["age"] }, "the columns are name, age, expected age"],
      [
        "expect",
        { path, cells: [{ row: 1, column: "age", value: 37 }] },
        'age in row 1 is "36", expected "37"',
      ],
      [
        "expect",
        { path, cells: [{ row: 3, column: "age", value: 37 }] },
        "there is no row 3; the file has 2 rows",
      ],
      ["expect", { path: "none.csv", columns: ["a"] }, "none.csv is empty"],
      ["expect", { path: "other.csv", columns: ["a"] }, "other.csv does not exist"],
    ];
    for (const [operation, args, message] of findings) {
      expect(run("check", operation, args)).toEqual({ success: false, message });
    }
  });
});

test("arguments that cannot be used are named, and nothing is done", () => {
  inWorkspace({ "people.csv": people }, (run) => {
    const problems: ["action" | "check", string, Json, string][] = [
      ["check", "count", { path: "people.csv" }, "args needs equals or atLeast"],
      ["check", "count", { path: "people.csv", equals: -1 }, "args.equals must be at least 0"],
      ["check", "count", { path: "people.csv", atLeast: 0 }, "args.atLeast must be at least 1"],
      ["check", "count", { path: "people.csv", equals: true }, "args.equals must be of type integer"],
      ["check", "expect", { path: "people.csv" }, "args needs columns or cells"],
      ["check", "expect", { path: "people.csv", cells: [] }, "args.cells is empty"],
      [
        "check",
        "expect",
        { path: "people.csv", cells: [{ row: 1, colum: "a", value: 1 }] },
        "args.cells[0] lacks column",
      ],
      ["action", "write", { columns: ["a"] }, "args lacks path"],
      [
        "action",
        "write",
        { path: "a", columns: ["a"], row: [] },
        "args has no row; there are path, columns, rows",
      ],
      ["check", "write", { path: "a", columns: ["a"] }, "write can be used in setup, not in verify"],
    ];
    for (const [verb, operation, args, error] of problems) expect(run(verb, operation, args)).toBe(error);
    const error = "csv has no operation drop; there are write, count, expect, remove";
    expect(run("action", "drop", {})).toEqual({ success: false, error });
  });
});

test("nothing outside of the workspace is touched, not even through a link", () => {
  inWorkspace({}, (run, workspace) => {
    symlinkSync("..", join(workspace, "up"));
    for (const path of ["../out.csv", "/tmp/out.csv", "up/out.csv", "."]) {
      expect(run("action", "write", { path, columns: ["a"] })).toEqual({
        success: false,
        message: `${path} is not inside the workspace`,
      });
    }
    expect(existsSync(join(workspace, "../out.csv"))).toBe(false);
  });
});

test("remove removes, and is content when there is nothing", () => {
  inWorkspace({ "people.csv": people }, (run, workspace) => {
    expect(run("action", "remove", { path: "people.csv" })).toMatchObject({ message: "removed people.csv" });
    expect(existsSync(join(workspace, "people.csv"))).toBe(false);
    expect(run("action", "remove", { path: "people.csv" })).toMatchObject({
      success: true,
      message: "people.csv was not there",
    });
  });
});
