import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { load } from "../../src/load/load.ts";
import { migrateTask } from "../../src/load/migrate/migrate-task.ts";
import { folderOf, runHere } from "../support/cli.ts";
import { files, judgeForm, migratedScriptForm, scriptForm } from "./migrate-tasks.ts";

/** Nothing listens on the port. */
function unreachable(port: number): string {
  return `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: { name: unreachable }
spec:
  setup:
    - http:
        url: http://127.0.0.1:${port}/
        expect: { status: 200, body: { match: ok } }
  prompt: { inline: hi }
  verify:
    - script: { inline: "test -d ." }
`;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const address = server.address();
  await new Promise((done) => server.close(done));
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return address.port;
}

describe("mcpvals migrate", () => {
  it("prints the task, and what could not be kept on stderr", async () => {
    using folder = folderOf({ "judge.yaml": judgeForm, ...files });
    const outcome = await runHere(["migrate", "judge.yaml"], { cwd: folder.path });
    expect(outcome).toEqual({
      code: 0,
      stdout: migrateTask({
        text: judgeForm,
        shown: "task.yaml",
        name: "task",
        json: false,
        read: (file) => files[file],
      }).text,
      stderr:
        "note: judge.yaml: metadata.difficulty: the difficulty is a label, as it is none of easy, medium, hard\n",
    });
  });

  it("keeps a setup that cannot reach its server an error", async () => {
    using folder = folderOf({ "old.yaml": unreachable(await freePort()) });
    const out = await runHere(["migrate", "old.yaml", "--out", "new"], { cwd: folder.path });
    const lost =
      'in setup nothing depended on what was expected, so it is left out: {"status":200,"body":{"match":"ok"}}';
    expect(out.stderr).toContain(`note: old.yaml: spec.setup[0].http: ${lost}\n`);
    const migratedText = readFileSync(join(folder.path, "new/old.yaml"), "utf8");
    expect(migratedText).toContain(`    # migrated: ${lost}\n    - http:`);
    for (const file of ["old.yaml", "new/old.yaml"]) {
      const run = await runHere(["run", file, "--agent", "null"], { cwd: folder.path });
      expect({ file, code: run.code, shown: run.stdout.includes("ECONNREFUSED") }).toEqual({
        file,
        code: 3,
        shown: true,
      });
    }
  });

  it("replaces nothing in another folder without --force", async () => {
    using folder = folderOf({ "a.yaml": scriptForm, "new/a.yaml": "mine", ...files });
    const refused = await runHere(["migrate", "a.yaml", "--out", "new"], { cwd: folder.path });
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toContain(
      `${join(folder.path, "new/a.yaml")} is there already (usage/invalid-option)`,
    );
    expect(readFileSync(join(folder.path, "new/a.yaml"), "utf8")).toBe("mine");
    const forced = await runHere(["migrate", "a.yaml", "--out", "new", "--force"], { cwd: folder.path });
    expect(forced.code).toBe(0);
    expect(readFileSync(join(folder.path, "new/a.yaml"), "utf8")).toBe(migratedScriptForm);
  });

  it("writes into the file, or into another folder", async () => {
    using folder = folderOf({ "a.yaml": scriptForm, "b.yaml": judgeForm, ...files });
    const out = await runHere(["migrate", "a.yaml", "b.yaml", "--out", "new"], { cwd: folder.path });
    expect(out).toMatchObject({ code: 0, stdout: "" });
    expect(readFileSync(join(folder.path, "new/a.yaml"), "utf8")).toBe(migratedScriptForm);
    expect(readFileSync(join(folder.path, "a.yaml"), "utf8")).toBe(scriptForm);
    const write = await runHere(["migrate", "a.yaml", "--write"], { cwd: folder.path });
    expect(write).toMatchObject({ code: 0, stdout: "" });
    expect(readFileSync(join(folder.path, "a.yaml"), "utf8")).toBe(migratedScriptForm);
  });

  it("takes the packages of extensions from an Eval", async () => {
    const old = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: { name: x }
spec:
  requires:
    - extension: kubernetes
      as: k8s
    - extension: mine
  prompt: { inline: hi }
  verify:
    - k8s.wait: {}
    - mine.look: {}
`;
    const extensions = `{ kubernetes: { package: "https://github.com/o/k@v1" }, mine: { package: ./mine } }`;
    const evaluation = `kind: Eval\nconfig:\n  extensions: ${extensions}\n  taskSets: [{ path: a.yaml }]\n`;
    using folder = folderOf({ "a.yaml": old, "eval.yaml": evaluation, mine: "#!/bin/sh\n" });
    const outcome = await runHere(["migrate", "a.yaml", "--eval", "eval.yaml", "--write"], {
      cwd: folder.path,
    });
    const note = "say where mine comes from: github.com/ORG/REPO@VERSION, as in the Eval's config.extensions";
    expect(outcome).toMatchObject({ code: 0, stdout: "" });
    expect(outcome.stderr).toMatch(`note: a.yaml: spec.imports: ${note}\n`);
    expect(outcome.stderr).not.toContain("where kubernetes comes from");
    expect(readFileSync(join(folder.path, "a.yaml"), "utf8")).toContain(`  imports:
    - package: https://github.com/o/k@v1
      as: k8s
    # migrated: ${note}
    - package: mine
      as: mine
`);
    const loaded = await load({ sources: ["eval.yaml"], cwd: folder.path, environment: {} });
    const specs = Object.values(loaded.eval.tasks[0]?.portable?.extensions ?? {});
    expect(specs.map((spec) => [spec.alias, spec.package, spec.dir])).toEqual([
      ["k8s", "https://github.com/o/k@v1", folder.path],
      ["mine", "./mine", folder.path],
    ]);
    const wrong = await runHere(["migrate", "a.yaml", "--eval", "a.yaml"], { cwd: folder.path });
    expect(wrong).toMatchObject({ code: 2, stdout: "" });
    expect(wrong.stderr).toContain("a.yaml is not an Eval: its kind is not Eval");
  });

  it.each([
    ["an Eval", "kind: Eval\nmetadata: { name: e }\n", "x.yaml is not a task"],
    ["a task that is wrong", scriptForm.replace("verify.sh", "none.sh"), 'there is no file "none.sh"'],
    ["a task without verify", "kind: Task\nsteps: { prompt: { inline: hi } }\n", "x.yaml has no verify step"],
  ])("refuses %s and writes nothing", async (_, text, message) => {
    using folder = folderOf({ "a.yaml": scriptForm, "x.yaml": text, ...files });
    const outcome = await runHere(["migrate", "a.yaml", "x.yaml", "--write"], { cwd: folder.path });
    expect(outcome).toMatchObject({ code: 2, stdout: "" });
    expect(outcome.stderr).toContain(message);
    expect(readFileSync(join(folder.path, "a.yaml"), "utf8")).toBe(scriptForm);
  });
});
