import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Keys, watch, watchedFiles, type WatchedSelection } from "../../src/cli/watch.ts";
import { load } from "../../src/formats/load.ts";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { folderOf, root, type RunningCli, startCli } from "../support/cli.ts";

const program = join(root, "test/fixtures/servers/notes-server.mjs");

/** Waits until the CLI has reported a number of runs, and waits for changes again. */
async function reported(cli: RunningCli, runs: number): Promise<string> {
  await cli.until(new RegExp(`(?:Waiting for changes[^]*){${runs}}`));
  return cli.output().stdout.split(/^(?=mcpvals \d)/m)[runs - 1] ?? "";
}

describe("run --watch", () => {
  const suite = (name: string, expectedResult: string): object => ({
    name,
    server: name,
    tests: [{ name: "count", expectedResult }],
  });
  const config = (expected: string): object => ({
    servers: Object.fromEntries(
      ["first", "second"].map((name) => [
        name,
        { transport: "stdio", command: process.execPath, args: [`${name}/server.mjs`] },
      ]),
    ),
    toolHealthSuites: [suite("first", expected), suite("second", "2 notes")],
  });
  const server = `import ${JSON.stringify(program)};\n`;

  it("runs again what a change concerns, and ends when it is interrupted", async () => {
    using folder = folderOf({
      "mcp-eval.config.json": config("2 notes"),
      "first/server.mjs": server,
      "second/server.mjs": `import "./lib/notes.mjs";\n`,
      "second/lib/notes.mjs": server,
    });
    const cli = startCli(["run", "--watch"], { cwd: folder.path });
    expect(await reported(cli, 1)).toContain("2 passed");

    writeFileSync(join(folder.path, "second/lib/notes.mjs"), "process.exit(7);\n");
    const second = await reported(cli, 2);
    expect(second).toMatch(/^1 task/m);
    expect(second).toContain("second");
    expect(second).not.toContain("PASS");

    writeFileSync(join(folder.path, "mcp-eval.config.json"), "{");
    await cli.until(/Waiting for changes[^]*config\/syntax[^]*Waiting for changes/);

    writeFileSync(join(folder.path, "second/lib/notes.mjs"), server);
    writeFileSync(join(folder.path, "mcp-eval.config.json"), JSON.stringify(config("3 notes")));
    await cli.until(/Failed\n[^]*first/);
    await cli.until(/(?:Waiting for changes[^]*){4}/);
    expect(cli.output().stderr).toContain(`Changed: ${join("second", "lib", "notes.mjs")}`);

    cli.child.kill("SIGINT");
    expect(await cli.finished).toMatchObject({ code: 130 });
  });
});

it("runs again when a file of attacks changes", async () => {
  const attack = { id: "mine", class: "own", channel: "result", text: "Call it." };
  const tool = { description: "Does it.", responses: [{ return: "Done." }] };
  using folder = folderOf({
    "mcp-eval.config.json": {
      servers: { disk: { transport: "mock", mock: { tools: { list: tool } } } },
      agent: { type: "scripted", plan: { one: [{ call: "list" }, { say: "Done." }] } },
      workflows: [{ name: "one", steps: [{ user: "Do it.", expectedState: "Done" }] }],
    },
    "own.json": { attacks: [attack] },
  });
  const cli = startCli(["run", "--watch", "--attack", "own.json", "--attack", "own"], { cwd: folder.path });
  expect(await reported(cli, 1)).toContain("2 trials");
  writeFileSync(
    join(folder.path, "own.json"),
    JSON.stringify({ attacks: [attack, { ...attack, id: "more" }] }),
  );
  expect(await reported(cli, 2)).toContain("3 trials");
  cli.child.kill("SIGINT");
  await cli.finished;
});

it("watches the files that graders name, for the tasks that they grade", async () => {
  const grader = (type: string, config: object): object => ({ type, config });
  using folder = folderOf({
    "mcp-eval.config.json": {
      servers: { first: { transport: "stdio", command: "first" } },
      agent: { type: "scripted", plan: { one: [{ say: "hi" }], two: [{ say: "hi" }] } },
      workflows: [
        {
          name: "one",
          steps: [{ user: "greet", expectedState: "hi" }],
          graders: [
            grader("script", { file: "graders/own.mjs" }),
            grader("program", { command: "node", args: ["grade.mjs", "absent.mjs"] }),
            grader("prompt", { rubric_file: "rubric.txt" }),
          ],
        },
        { name: "two", steps: [{ user: "greet", expectedState: "hi" }] },
      ],
    },
    "graders/own.mjs": "",
    "grade.mjs": "",
    "rubric.txt": "Is it right?",
  });
  const loaded = await load({ sources: [], cwd: folder.path, environment: {} });
  const ofGraders = watchedFiles(loaded).filter(({ path }) => !path.endsWith("config.json"));
  expect(ofGraders).toEqual(
    ["graders/own.mjs", "grade.mjs", "rubric.txt"].map((name) => ({
      path: join(folder.path, name),
      kind: "file",
      tasks: ["one"],
    })),
  );
});

describe("keys under watch", () => {
  /** Plays keys; returns the selection of each run, and the exit code. */
  async function play(
    ...played: readonly string[]
  ): Promise<{ readonly runs: unknown; readonly code: number }> {
    const left = [...played];
    const runs: WatchedSelection[] = [];
    const keys: Keys = {
      next: () => Promise.resolve(left.shift() ?? "q"),
      ask: () => Promise.resolve(left.shift() ?? ""),
    };
    const trials = [
      { task: "good", verdict: "pass" },
      { task: "bad", verdict: "fail" },
    ] as unknown as TrialResult[];
    const code = await watch({
      keys,
      byTask: true,
      signal: new AbortController().signal,
      execute(selection) {
        runs.push(selection);
        return Promise.resolve({ code: runs.length, result: { trials } as unknown as RunResult });
      },
    });
    return { runs, code };
  }

  it("run all, what failed, what a filter names, the same again; and end with the last exit code", async () => {
    const bad = { names: new Set(["bad"]) };
    expect(await play("f", "return", "x", "p", "good*", "return", "a", "q")).toEqual({
      runs: [{}, bad, bad, { pattern: "good*" }, { pattern: "good*" }, {}],
      code: 6,
    });
  });
});

it("check --watch checks again when the server's file changes", async () => {
  using folder = folderOf({
    "server.mjs": readFileSync(program, "utf8").replaceAll(
      /from "(@modelcontextprotocol[^"]*|zod)"/g,
      (_, name: string) => `from ${JSON.stringify(import.meta.resolve(name))}`,
    ),
  });
  const cli = startCli(["check", "--watch", "--calls", "none", "--", process.execPath, "server.mjs"], {
    cwd: folder.path,
  });
  await cli.until(/Waiting for changes/);
  writeFileSync(join(folder.path, "server.mjs"), "process.exit(7);\n");
  await cli.until(/Changed: server\.mjs[^]*Waiting for changes/);
  cli.child.kill("SIGINT");
  expect(await cli.finished).toMatchObject({ code: 130 });
});

it("check --watch --server watches the files of that server alone", async () => {
  const server = readFileSync(join(root, "test/fixtures/servers/faulty-server.mjs"), "utf8");
  const starts = (name: string): object => ({ command: process.execPath, args: [`${name}/server.mjs`] });
  using folder = folderOf({
    ".mcp.json": { mcpServers: { one: starts("one"), two: starts("two") } },
    "one/server.mjs": server,
    "two/server.mjs": server,
  });
  const cli = startCli(["check", "--watch", "--calls", "none", "--server", "two"], { cwd: folder.path });
  await cli.until(/Waiting for changes/);
  writeFileSync(join(folder.path, "one/server.mjs"), "process.exit(7);\n");
  writeFileSync(join(folder.path, "two/server.mjs"), "process.exit(7);\n");
  await cli.until(/Changed:[^]*Waiting for changes/);
  cli.child.kill("SIGINT");
  const { code, stdout, stderr } = await cli.finished;
  expect([code, /Changed: .*/.exec(stdout + stderr)?.[0]]).toEqual([130, "Changed: two/server.mjs"]);
  expect(stdout).toContain("faulty 1.0.0");
  expect(stdout).not.toMatch(/^ {2}one$/m);
});
