import { expect, it } from "vitest";
import { folderOf, runCli } from "../support/cli.ts";

it("mcpvals extensions test tells once why the rest was not tried", async () => {
  using folder = folderOf({ "gone.mjs": 'console.error("no DATABASE_URL");\nprocess.exit(3);\n' });
  const { code, stdout, stderr } = await runCli(["extensions", "test", "gone.mjs"], { cwd: folder.path });
  expect([code, stderr, stdout]).toEqual([
    1,
    "",
    `gone.mjs  json-rpc
  fail  initialize  extension "gone.mjs" ended with exit code 3 before it had answered initialize; its output ends with: no DATABASE_URL
  skip  11 more     initialize was not answered with a result
  skip  6 more      the program never answered
0 passed, 1 failed, 17 skipped
`,
  ]);
});

it("mcpvals extensions test asks of a program that keeps silent whether it holds back what it writes", async () => {
  using folder = folderOf({ "mute.mjs": "process.stdin.resume();\n" });
  const { code, stdout } = await runCli(["extensions", "test", "./mute.mjs", "--timeout", "500ms"], {
    cwd: folder.path,
  });
  expect([code, stdout.split("\n")[1]]).toEqual([
    1,
    '  fail  initialize  extension "mute.mjs" did not answer initialize within 500 ms; does the program flush its stdout after each line?',
  ]);
});

it("an operation that there is not is told with the package, where the task's name for it says little", async () => {
  const task = {
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name: "t" },
    spec: {
      imports: [{ package: "mcpvals:csv", as: "table" }],
      prompt: "Do it.",
      verify: [{ "table.cuont": { path: "a.csv" } }],
    },
  };
  using folder = folderOf({ "task.json": task });
  const { code, stderr } = await runCli(["validate", "task.json"], { cwd: folder.path });
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(
      /the extension table, which is mcpvals:csv, has no operation "cuont" [^]*Did you mean "count"\?/,
    ),
  ]);
});
