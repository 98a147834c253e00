import { join } from "node:path";
import { expect, it } from "vitest";
import { load } from "../../src/formats/load.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, runHere, runInline } from "../support/cli.ts";

/** A program that says what is in a file of its working folder. */
const reader = {
  type: "command",
  command: process.execPath,
  args: ["-e", 'console.log(require("node:fs").readFileSync("data/note.txt", "utf8"))', "{prompt}"],
};

const workflow = (rest: object = {}): object => ({
  name: "reads",
  steps: [{ user: "What does the note say?", expectedState: { contains: "buy milk", in: "answer" } }],
  fixtures: ["files/data"],
  ...rest,
});

const config = (
  agent: object | string,
  flow: object = workflow(),
  rest: object = {},
): Record<string, unknown> => ({
  "mcp-eval.config.json": { server: fixtureServer(), agent, workflows: [flow], ...rest },
  "files/data/note.txt": "buy milk\n",
  "skills/greeting/SKILL.md": "greet\n",
});

it("fixtures of a workflow are in the workspace of each trial, of agents of every kind", async () => {
  const file = { type: "file", config: { must_exist: ["data/note.txt"] } };
  const graders = [file];
  const plan = { reads: [{ call: "echo", args: { message: "x" } }, { say: "buy milk" }] };
  const played = await runInline(config({ type: "scripted", plan }, workflow({ graders })));
  expect([played.code, played.result.trials[0]?.verdict]).toEqual([0, "pass"]);
  using folder = folderOf(config(reader, workflow({ graders })));
  const ran = await runHere(["run"], { cwd: folder.path });
  // The program saw its fixture; it connects to no server.
  expect(ran.stdout).toContain("the agent connected to none of its servers");
  expect((await runHere(["show", "--trial", "t1"], { cwd: folder.path })).stdout).toMatch(
    /workspace\.created .*fixtures=\["data"\][^]*assistant: buy milk/,
  );
});

it.each([
  [["files/nothing"], "files/nothing"],
  [["../outside"], "outside"],
  [["files/data", "other/data"], "two fixtures would be"],
])("fixtures that cannot be copied are refused: %j", async (fixtures, said) => {
  using folder = folderOf({
    ...config("null", workflow({ fixtures })),
    "other/data/a": "",
  });
  const ran = await runHere(["validate"], { cwd: folder.path });
  expect([ran.code, ran.stderr]).toEqual([2, expect.stringContaining(said)]);
  expect(ran.stderr).toContain("mcp-eval.config.json:");
});

it("the same workflow is the same task in another folder, and another one with other fixtures", async () => {
  const prints: (string | undefined)[] = [];
  for (const fixtures of [["files/data"], ["files/data"], ["files"]]) {
    const plan = { reads: [{ say: "buy milk" }] };
    const { result } = await runInline(config({ type: "scripted", plan }, workflow({ fixtures })));
    prints.push(result.fingerprints?.["reads"]);
  }
  expect([prints[0] === prints[1], prints[1] === prints[2]]).toEqual([true, false]);
});

it("skills of a config are given to the presets of agent programs, and refused for models", async () => {
  using folder = folderOf(config("null", workflow(), { skills: ["skills"] }));
  const environment = {};
  const { eval: spec } = await load({ sources: [], cwd: folder.path, agents: ["claude-code"], environment });
  expect(spec.agents).toMatchObject([
    { skills: { mountPath: ".claude/skills", tool: "Skill", folders: [join(folder.path, "skills")] } },
  ]);
  const refused = await runHere(["validate", "--agent", "openai/gpt-5"], { cwd: folder.path });
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("which has no skills")]);
  using lost = folderOf(config("null", workflow(), { skills: ["nowhere"] }));
  const missing = await runHere(["validate", "--agent", "claude-code"], { cwd: lost.path });
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining("there is no folder")]);
});
