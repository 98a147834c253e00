import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { folderOf, root, runHere } from "../support/cli.ts";

const program = join(root, "test/fixtures/servers/notes-server.mjs");
const file = "mcp-eval.config.yaml";

it("writes a config with tests of what the servers of a client's file answer, which pass", async () => {
  const env = { NOTES_DIR: "${HOME}/notes", NOTES_TOKEN: "t0ken-of-notes-4711" };
  const notes = { command: process.execPath, args: [program], env };
  using folder = folderOf({ ".mcp.json": { mcpServers: { notes } } });
  const cwd = folder.path;
  const { code, stdout, stderr } = await runHere(["init"], { cwd });
  expect(code, stderr).toBe(0);
  expect(stdout).toContain(`Wrote ${file}: 3 tool tests that passed just now.`);
  expect(stdout).toContain("Set these variables first: NOTES_TOKEN");
  expect(stdout).toContain("Next: npx mcpvals run");

  const text = readFileSync(join(cwd, file), "utf8");
  expect(text).toMatch(/^servers:\n/);
  expect(text).not.toContain("t0ken");
  expect(parse(text)).toEqual({
    servers: {
      notes: {
        transport: "stdio",
        command: process.execPath,
        args: [program],
        env: { NOTES_DIR: "${HOME}/notes", NOTES_TOKEN: "${NOTES_TOKEN}" },
        inheritEnv: true,
      },
    },
    toolHealthSuites: [
      {
        name: "notes",
        server: "notes",
        tests: [
          {
            name: "title",
            args: { id: expect.any(Number) },
            expectedResult: { title: "Shopping $${LIST}", size: 12 },
          },
          { name: "count", args: {}, expectedResult: "There are 2 notes." },
          { name: "token", args: {} },
        ],
      },
    ],
  });
  expect(text).toContain("# Gives the title of a note.\n");
  expect(text).toMatch(
    /# Without a test: its call did not succeed\. Remove the # before a test to call the tool\.\n +# - name: broken\n/,
  );
  expect(text).toMatch(/readOnlyHint: true.*\n +# - name: delete\n +# {3}args: \{ id: 1 \}\n/);
  expect(text).toMatch(/^# workflows:$/m);

  const run = await runHere(["run"], { cwd, env: { NOTES_TOKEN: "other" } });
  expect(run.code, run.stdout + run.stderr).toBe(0);
  expect(run.stdout).toContain("3 passed");

  const again = await runHere(["init"], { cwd });
  expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining(`${file} exists`) });
  expect(readFileSync(join(cwd, file), "utf8")).toBe(text);
});

/** The file of a first config with all that it suggests in comments, as a user would remove the marks. */
function uncommented(cwd: string): string {
  const text = readFileSync(join(cwd, file), "utf8");
  return text.replaceAll(/^( *)# ( *(?:- )?\w+:.*)$/gm, "$1$2");
}

it("tests a call that has to be refused where no tool may be called; the comments become valid tests", async () => {
  using folder = folderOf({});
  const { path: cwd } = folder;
  const { code, stdout, stderr } = await runHere(
    ["init", "--yes", "--", process.execPath, program, "only-delete"],
    { cwd },
  );
  expect(code, stderr).toBe(0);
  expect(stdout).toContain(`Wrote ${file}: 1 call that a server has to refuse, not tried yet.`);
  expect(parse(readFileSync(join(cwd, file), "utf8"))).toMatchObject({
    toolHealthSuites: [{ tests: [{ name: "delete", args: {}, expect: { isError: true } }] }],
  });
  const run = await runHere(["run"], { cwd });
  expect([run.code, run.stdout]).toEqual([0, expect.stringContaining("1 passed")]);

  writeFileSync(join(cwd, file), uncommented(cwd));
  expect(await runHere(["validate"], { cwd })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("1 workflow, 2 tool tests"),
  });
});

it("rather tests that a call is refused of a tool that destroys nothing", async () => {
  using folder = folderOf({});
  const { path: cwd } = folder;
  const server = [process.execPath, program, "only-delete", "rename"];
  expect((await runHere(["init", "--yes", "--", ...server], { cwd })).code).toBe(0);
  expect(parse(readFileSync(join(cwd, file), "utf8"))).toMatchObject({
    toolHealthSuites: [{ tests: [{ name: "rename", args: {}, expect: { isError: true } }] }],
  });
});

it("writes how to check a server of which nothing can be tested; the comments become valid tests", async () => {
  using folder = folderOf({});
  const { path: cwd } = folder;
  const faulty = join(root, "test/fixtures/servers/faulty-server.mjs");
  const { code, stdout, stderr } = await runHere(
    ["init", "--yes", "--", process.execPath, faulty, "not-annotated"],
    { cwd },
  );
  expect(code, stderr).toBe(0);
  expect(stdout).toContain("Next: npx mcpvals check\n");
  expect(await runHere(["validate"], { cwd })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`${file} is valid: servers faulty-server`),
  });
  expect(await runHere(["run"], { cwd })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("To check the servers: npx mcpvals check"),
  });
  writeFileSync(join(cwd, file), uncommented(cwd));
  expect(await runHere(["validate"], { cwd })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("1 workflow, 1 tool test"),
  });
});

it("finds the program of the package where no client's file is", async () => {
  using folder = folderOf({
    "package.json": { name: "notes", type: "module", bin: { notes: "./server.js" } },
    "server.js": `import ${JSON.stringify(program)};`,
  });
  const { code, stderr } = await runHere(["init", "--yes"], { cwd: folder.path });
  expect(code, stderr).toBe(0);
  expect(stderr).toContain("the server is that of package.json: node ./server.js");
  const text = readFileSync(join(folder.path, file), "utf8");
  expect(text).toContain("command: node\n    args:\n      - ./server.js\n");
  expect(await runHere(["run"], { cwd: folder.path })).toMatchObject({ code: 0 });
});

it("says how to name a server where there is none", async () => {
  using folder = folderOf({});
  const { code, stderr } = await runHere(["init"], { cwd: folder.path });
  expect([code, stderr]).toEqual([2, expect.stringContaining("no server is named")]);
});

it("names the schema that an editor finds, and expects nothing of the machine or the day", async () => {
  const schema = "node_modules/mcpvals/schemas/config.schema.json";
  using folder = folderOf({ [schema]: "{}", "packages/notes/README.md": "" });
  const cwd = join(folder.path, "packages/notes");
  const { code, stderr } = await runHere(["init", "--yes", "--", process.execPath, program, "environment"], {
    cwd,
  });
  expect(code, stderr).toBe(0);
  const text = readFileSync(join(cwd, file), "utf8");
  expect(text.split("\n", 1)).toEqual([`# yaml-language-server: $schema=../../${schema}`]);
  const { toolHealthSuites } = parse(text) as { toolHealthSuites: [{ tests: { name: string }[] }] };
  const others = ["title", "count", "token"];
  expect(toolHealthSuites[0].tests.filter(({ name }) => !others.includes(name))).toEqual([
    { name: "environment", args: {} },
    { name: "folder", args: {}, expectedResult: "The notes are in:" },
    { name: "home", args: {} },
    { name: "limit", args: {}, expectedResult: 9 },
    { name: "sum", args: {}, expectedResult: "1 + 1 = 2" },
    { name: "today", args: {} },
    { name: "date", args: {} },
    { name: "clock", args: {} },
  ]);
  expect(text).toMatch(
    /- name: token\n +args: \{\}\n +# Only .*, because a second call had another result\. Add/,
  );
  expect(text).toMatch(
    /- name: clock\n +args: \{\}\n +# Only .*, because its result is too short, or names this machine or the time\./,
  );
});

it("writes a task about an answer of a server, which is proven", async () => {
  const notes = { command: process.execPath, args: [program], env: { NOTES_TOKEN: "t0ken-of-notes-4711" } };
  using folder = folderOf({ ".mcp.json": { mcpServers: { notes } }, [file]: "servers: {}" });
  const cwd = folder.path;
  const outcome = await runHere(["init", "--task", ".mcp.json"], { cwd });
  expect(outcome).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("Next: npx mcpvals validate task.yaml --run"),
  });
  const text = readFileSync(join(cwd, "task.yaml"), "utf8");
  expect(text).not.toContain("t0ken");
  const env = { NOTES_TOKEN: "other" };
  const proof = await runHere(["validate", "task.yaml", "--run"], { cwd, env });
  expect(proof.code, proof.stdout + proof.stderr).toBe(0);
  expect(await runHere(["init", "--task", ".mcp.json"], { cwd })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("task.yaml exists, and init overwrites nothing"),
  });
});

it("writes a task with texts to fill in where no tool gave an answer", async () => {
  const none = {
    command: process.execPath,
    args: [join(root, "test/fixtures/servers/fixture-server.mjs"), "--no-tools"],
  };
  using folder = folderOf({ ".mcp.json": { mcpServers: { none } } });
  const cwd = folder.path;
  const { code, stdout } = await runHere(["init", "--task"], { cwd });
  expect([code, stdout]).toEqual([0, expect.stringContaining("to be filled in")]);
  expect(await runHere(["validate", "task.yaml"], { cwd })).toMatchObject({ code: 0 });
});
