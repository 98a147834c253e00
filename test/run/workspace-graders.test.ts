import { expect, it } from "vitest";
import { fixtureServer } from "../e2e/support.ts";
import { runIn, runInline } from "../support/cli.ts";

/** A program that writes a file into its working folder, the workspace, and says nothing else. */
const writes = (text: string) => ({
  type: "command",
  command: process.execPath,
  args: ["-e", `require("node:fs").writeFileSync("out.txt", ${JSON.stringify(text)}); console.log("Done.")`],
});

const task = (graders: readonly unknown[]): Record<string, unknown> => ({
  "task.yaml": {
    apiVersion: "mcp-eval/v1",
    kind: "Task",
    metadata: { name: "writes a file" },
    spec: {
      prompt: "Write it.",
      verify: [{ command: { run: "test -e {workspace}/out.txt" } }],
      cleanup: [{ command: { run: "rm {workspace}/out.txt" } }],
      graders,
    },
  },
  "golden/out.txt": "one\ntwo\n",
});
const config = (text: string): Record<string, unknown> => ({
  "mcp-eval.config.json": { agents: { writer: writes(text) }, tasks: ["task.yaml"] },
});
const graders = [
  {
    type: "file",
    config: {
      must_exist: ["out.txt"],
      must_not_exist: ["*.tmp"],
      content_patterns: [{ path: "*.txt", must_match: ["two"] }],
    },
  },
  {
    type: "diff",
    config: { expected_files: [{ path: "out.txt", snapshot: "out.txt" }], context_dir: "golden" },
  },
];

it("graders see the workspace as it was before cleanup", async () => {
  const { code, result } = await runInline({ ...task(graders), ...config("one\ntwo\n") });
  expect([code, result.trials[0]?.grades.map(({ grader, score }) => [grader, score])]).toEqual([
    0,
    expect.arrayContaining([
      ["file", 1],
      ["diff", 1],
    ]),
  ]);
});

it("what the agent left wrong fails the trial", async () => {
  const { code, result } = await runInline({ ...task(graders), ...config("one\nthree\n") });
  expect([code, result.trials[0]?.grades.filter(({ verdict }) => verdict === "fail")]).toMatchObject([
    1,
    [
      { grader: "file", score: 3 / 4, reason: "out.txt does not contain /two/" },
      { grader: "diff", score: 1 / 2, reason: expect.stringContaining('line 2: "three", expected "two"') },
    ],
  ]);
});

it("a snapshot that is missing is found before anything runs", async () => {
  const wrong = { type: "diff", config: { expected_files: [{ path: "out.txt", snapshot: "none.txt" }] } };
  const { code, stderr } = await runIn({ ...task([wrong]), ...config("") }, ["run"]);
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining('graders[0].config.expected_files[0].snapshot: there is no file "none.txt"'),
  ]);
});

it.each(graders)(
  "a grader $type of a workflow without a workspace is refused before anything runs",
  async (grader) => {
    const files = (agent: unknown): Record<string, unknown> => ({
      ...task([]),
      "mcp-eval.config.json": {
        agent,
        server: fixtureServer(),
        workflows: [{ name: "writes", steps: [{ user: "Write it." }], graders: [grader] }],
      },
    });
    const scripted = { type: "scripted", plan: { writes: [{ say: "Done." }] } };
    const { code, stderr } = await runIn(files(scripted), ["run"]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining(`the grader "${grader.type}" needs a workspace, which a workflow of the agent`),
    ]);
    expect((await runIn(files(writes("one\ntwo\n")), ["validate"])).code).toBe(0);
  },
);
