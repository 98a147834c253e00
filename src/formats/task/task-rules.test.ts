import { describe, expect, it } from "vitest";
import { check, filesOf, wrongIn } from "../../../test/support/task-file.ts";

const run = { run: "test -d ." };

describe("a verify phase that checks nothing", () => {
  const made = { file: { path: "a", content: "" } };
  const ignored = { command: { ...run, continueOnError: true } };
  const nothing =
    "config/checks-nothing at value spec.verify: spec.verify checks nothing: none of its steps could fail";

  it.each<[object[]]>([
    [[made]],
    [[{ group: { setup: [check], steps: [made], cleanup: [check] } }]],
    [[{ foreach: { var: "x", in: [1], steps: [{ file: { path: "a", content: "" } }] } }]],
    [[{ not: ignored }]],
    [[{ not: made }]],
    [[{ allOf: { continueOnError: true, steps: [check] } }]],
  ])("%j", (verify) => {
    expect(wrongIn({ verify })).toEqual([nothing]);
  });

  it.each<[object[]]>([
    [[made, check]],
    [[{ anyOf: [check, check] }]],
    [[{ file: { path: "a", expect: { exists: false } } }]],
    [[{ "main.add": {} }]],
  ])("but not %j", (verify) => {
    expect(wrongIn({ verify })).toEqual([]);
  });
});

describe("paths", () => {
  const files = filesOf({ "a.sh": "", dir: null, "sub/a.sh": "", blank: " \n" });

  it("have to lead to what they name, inside the task's folder", () => {
    const spec = {
      prompt: [{ file: "no.md" }, { file: "dir" }, { file: "../p.md" }, { file: "blank" }],
      fixtures: ["a.sh", "dir", "sub/a.sh", "none", "/etc/passwd", "."],
      servers: { s: { command: "x", cwd: ".." } },
      imports: [{ package: "./ext", as: "e" }],
      setup: [
        { "e.do": {} },
        { script: { file: "a.sh" } },
        { script: { file: "dir" } },
        { script: { file: "{env.HOME}/x" } },
        { command: { ...run, workdir: "/tmp" } },
        { command: { ...run, workdir: "later" } },
        { file: { path: "../x", absent: true } },
        { file: { path: "{workspace}/../x", absent: true } },
      ],
    };
    expect(wrongIn(spec, { files })).toEqual([
      'config/unknown-reference at value spec.prompt[0].file: spec.prompt[0].file: there is no file "no.md" in the task\'s folder',
      'config/invalid-value at value spec.prompt[1].file: spec.prompt[1].file: "dir" is a folder, not a file',
      'task/outside at value spec.prompt[2].file: spec.prompt[2].file: "../p.md" lies outside the task\'s folder',
      'config/invalid-value at value spec.prompt[3].file: spec.prompt[3].file: the file "blank" is blank',
      'config/unknown-reference at value spec.imports[0].package: spec.imports[0].package: there is no file or folder "./ext" in the task\'s folder',
      'task/outside at value spec.servers.s.cwd: spec.servers.s.cwd: ".." lies outside the task\'s folder',
      'config/unknown-reference at value spec.fixtures[3]: spec.fixtures[3]: there is no file or folder "none" in the task\'s folder',
      'task/outside at value spec.fixtures[4]: spec.fixtures[4]: "/etc/passwd" lies outside the task\'s folder',
      "config/invalid-value at value spec.fixtures[5]: spec.fixtures[5] must name a file or folder inside the task's folder",
      'config/duplicate-name at value spec.fixtures[2]: two fixtures would be "a.sh" in the workspace: spec.fixtures[0] and spec.fixtures[2]',
      'config/invalid-value at value spec.setup[2].script.file: spec.setup[2].script.file: "dir" is a folder, not a file',
      'task/outside at value spec.setup[4].command.workdir: spec.setup[4].command.workdir: "/tmp" lies outside the task\'s folder',
      'task/outside at value spec.setup[6].file.path: spec.setup[6].file.path: "../x" lies outside the task\'s folder',
      'task/outside at value spec.setup[7].file.path: spec.setup[7].file.path: "{workspace}/../x" leads out of the workspace',
    ]);
  });

  it("may not be texts that cannot be read", () => {
    const unreadable = { look: () => "file" as const, read: () => undefined, leaves: () => false };
    expect(wrongIn({ prompt: { file: "p" } }, { files: unreadable })).toEqual([
      'config/invalid-value at value spec.prompt.file: spec.prompt.file: the file "p" cannot be read as text',
    ]);
  });
});

describe("paths in the workspace", () => {
  const make = (path: string): object => ({ setup: [{ file: { path, content: "" } }] });

  it.each(["{workspace}/../x", "{workspace}/a/../../x", "{workspace}/..", "{workspace}/./../a"])(
    "may not lead out of it: %s",
    (path) => {
      expect(wrongIn(make(path))).toEqual([
        `task/outside at value spec.setup[0].file.path: spec.setup[0].file.path: ${JSON.stringify(path)} leads out of the workspace`,
      ]);
      const open = { ...filesOf({}), look: () => "folder" as const };
      expect(wrongIn(make(path), { files: open })).toEqual([]);
    },
  );

  it.each(["{workspace}/a/../x", "{workspace}/..a", "{workspace}/{random.id}/../../x"])(
    "may be %s",
    (path) => {
      expect(wrongIn(make(path))).toEqual([]);
    },
  );
});
