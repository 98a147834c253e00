import { execFileSync } from "node:child_process";
import { readdirSync, symlinkSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { load } from "../../src/formats/load.ts";
import { fixtureServer } from "../e2e/support.ts";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, runCli, runHere, runInline } from "../support/cli.ts";

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

it("a pipe among the fixtures is found before anything runs", async () => {
  using folder = folderOf(config("null"));
  const pipe = join(folder.path, "files/data/pipe");
  execFileSync("mkfifo", [pipe]);
  const ran = await runHere(["validate"], { cwd: folder.path });
  expect([ran.code, ran.stderr]).toEqual([
    2,
    expect.stringContaining(`${pipe} is a pipe, a socket or a device, which cannot be copied`),
  ]);
});

it("copying a large fixture is within the limit of the trial, and leaves nothing", async () => {
  const agent = { type: "scripted", plan: { reads: [{ say: "buy milk" }] } };
  using temporary = folderOf({});
  using folder = folderOf(config(agent, workflow(), { limits: { trial: "50ms" } }));
  // It takes no room, but its copy would, and seconds.
  truncateSync(join(folder.path, "files/data/note.txt"), 3 * 1024 ** 3);
  const env = { TMPDIR: temporary.path };
  const ran = await runCli(["run", "-r", "json"], { cwd: folder.path, env });
  const { trials } = JSON.parse(ran.stdout) as RunResult;
  expect(trials[0], ran.stderr).toMatchObject({ verdict: "timeout", error: { code: "trial/timeout" } });
  expect(readdirSync(temporary.path)).toEqual([]);
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
});

it.each<[skills: readonly string[], said: string]>([
  [["nowhere"], "there is no folder"],
  [["files"], "has no skill"],
  [["skills", "more/greeting"], 'the skill "greeting" is in'],
  [["leading"], "the link"],
  [["piped"], "is a pipe, a socket or a device"],
])("skills that cannot be given are refused: %j", async (skills, said) => {
  using outside = folderOf({ secret: "s" });
  using folder = folderOf({
    ...config("null", workflow(), { skills }),
    "more/greeting/SKILL.md": "",
    "leading/a/SKILL.md": "",
    "piped/a/SKILL.md": "",
  });
  symlinkSync(join(outside.path, "secret"), join(folder.path, "leading/a/secret"));
  // A skill that is shared inside the folder of the config is a usual one.
  symlinkSync("../more/greeting/SKILL.md", join(folder.path, "leading/shared"));
  execFileSync("mkfifo", [join(folder.path, "piped/a/pipe")]);
  const validate = (...args: readonly string[]): ReturnType<typeof runHere> =>
    runHere(["validate", ...args], { cwd: folder.path });
  const ran = await validate("--agent", "claude-code");
  expect([ran.code, ran.stderr]).toEqual([2, expect.stringContaining(said)]);
  // It stands at its place in the file.
  expect(ran.stderr).toMatch(/mcp-eval\.config\.json:\d+:\d+/);
  const allowed = await validate("--agent", "claude-code", "--allow-outside");
  expect(allowed.code, allowed.stderr).toBe(said === "the link" ? 0 : 2);
});

it("an agent of which it is not known where it looks for skills is told what can be done in a config", async () => {
  using folder = folderOf(config(reader, workflow(), { skills: ["skills"] }));
  const ran = await runHere(["validate"], { cwd: folder.path });
  expect([ran.code, ran.stderr]).toEqual([
    2,
    expect.stringContaining("Give it a preset, such as claude-code"),
  ]);
});
