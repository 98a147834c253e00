import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { copySkills } from "../../src/agents/agent-program.ts";
import { exportFile } from "../../src/cli/commands/task.ts";
import { evaluate } from "../../src/evaluate.ts";
import { failure, load } from "../formats/support/load.ts";
import { folderOf, runHere } from "../support/cli.ts";

/** A task of the script form, whose scripts stand in a folder that other tasks share. */
const sharing = `kind: Task
metadata: { name: sharing }
steps:
  setup: { file: ../shared/setup.sh }
  verify: { file: ../shared/verify.sh }
  prompt: { inline: Hi. }
`;

const scripts = {
  "evals/shared/setup.sh": "#!/bin/sh\ncat beside.txt\n",
  "evals/shared/verify.sh": "#!/bin/sh\ngrep -q shared beside.txt\n",
  "evals/shared/beside.txt": "shared\n",
};

/** A folder with a repository `repo`, and something beside it. */
function repository(
  files: Readonly<Record<string, string>>,
): Disposable & { readonly path: string; readonly repo: string } {
  const inside = Object.entries(files).map(([name, text]) => [`repo/${name}`, text] as const);
  const folder = folderOf({ ...Object.fromEntries(inside), "beside/verify.sh": "#!/bin/sh\n" });
  const repo = join(folder.path, "repo");
  mkdirSync(join(repo, ".git"));
  return { path: folder.path, repo, [Symbol.dispose]: () => folder[Symbol.dispose]() };
}

describe("an older task may use files of its repository (docs/tasks.md)", () => {
  it("runs scripts that it shares with others, each in its own folder, and says so in a note", async () => {
    using folder = repository({ ...scripts, "evals/a/task.yaml": sharing });
    chmodSync(join(folder.repo, "evals/shared/setup.sh"), 0o755);
    const cwd = join(folder.repo, "evals/a");
    const { notes } = await load(cwd, { source: "task.yaml" });
    expect(notes.map((note) => note.replace(/^.*: /, ""))).toEqual([
      `"../shared/setup.sh" lies outside the task's folder; the task needs it wherever it is taken`,
      `"../shared/verify.sh" lies outside the task's folder; the task needs it wherever it is taken`,
    ]);
    const result = await evaluate("task.yaml", { cwd, agents: ["null"] });
    expect(result.trials.map(({ verdict }) => verdict)).toEqual(["pass"]);
  });

  it("through an Eval, a folder, a glob and a link as well", async () => {
    using folder = repository({
      ...scripts,
      "evals/a/task.yaml": sharing,
      "agents/eval.yaml": `kind: Eval\nconfig:\n  agent: { type: builtin.claude-code }\n  taskSets: [{ path: ../evals/a/task.yaml }]\n`,
      "evals/b/task.yaml": sharing.replaceAll("../shared/", "").replace("name: sharing", "name: linked"),
    });
    symlinkSync("../shared/setup.sh", join(folder.repo, "evals/b/setup.sh"));
    symlinkSync("../shared/verify.sh", join(folder.repo, "evals/b/verify.sh"));
    for (const source of ["agents/eval.yaml", "evals/a", "evals/a/*.yaml", "evals/b/task.yaml"]) {
      const { notes } = await load(folder.repo, { source });
      expect([source, notes.filter((note) => note.includes("lies outside")).length]).toEqual([source, 2]);
    }
  });

  it("and not what is beside the repository, or behind a link out of it", async () => {
    using folder = repository({
      "a/task.yaml": sharing.replaceAll("../shared/", "../../beside/"),
      "b/task.yaml": sharing.replaceAll("../shared/", "../out/"),
    });
    symlinkSync("../beside", join(folder.repo, "out"));
    for (const name of ["a", "b"]) {
      const { code } = await failure(folder.repo, { source: `${name}/task.yaml` });
      expect([name, code]).toEqual([name, "task/outside"]);
    }
  });

  it("and without a repository only what is below the folder of the file that was named", async () => {
    using folder = folderOf({
      ...scripts,
      "evals/a/task.yaml": sharing,
      "evals/eval.yaml": `kind: Eval\nconfig:\n  agent: { type: builtin.claude-code }\n  taskSets: [{ path: a/task.yaml }]\n`,
    });
    expect((await load(folder.path, { source: "evals/eval.yaml" })).eval.tasks).toHaveLength(1);
    expect((await failure(folder.path, { source: "evals/a/task.yaml" })).code).toBe("task/outside");
  });

  it("but a task of mcp-eval/v1 keeps to its own folder", async () => {
    using folder = repository({
      ...scripts,
      "evals/a/task.yaml": `kind: Task\napiVersion: mcp-eval/v1\nmetadata: { name: t }\nspec:\n  verify: [{ script: { file: ../shared/verify.sh } }]\n`,
    });
    expect((await failure(folder.repo, { source: "evals/a/task.yaml" })).code).toBe("task/outside");
  });

  it("and is exported with them", async () => {
    using folder = repository({ ...scripts, "evals/a/task.yaml": sharing });
    const { document } = await exportFile("evals/a/task.yaml", { cwd: folder.repo, allowOutside: false });
    expect(document.artifacts.map(({ path }) => path)).toEqual(["../shared/setup.sh", "../shared/verify.sh"]);
  });
});

describe("an older agent that is a line for the shell hears the prompt unchanged, and runs nothing of it", () => {
  const prompt = `It's "quoted": \\n \\\\ $HOME $(touch pwned) \`touch pwned\`\n'; touch pwned; '\nEOF\ntouch pwned`;

  /** Plays the prompt to an agent that writes what it hears into `said.txt`, and gives that. */
  async function said(runPrompt: string): Promise<string> {
    using folder = folderOf({
      "eval.yaml": `kind: Eval\nconfig:\n  agent: { type: file, path: agent.yaml }\n  taskSets: [{ path: task.yaml }]\n`,
      "task.yaml": {
        kind: "Task",
        metadata: { name: "t" },
        steps: { prompt: { inline: prompt }, verify: { inline: "test -d ." } },
      },
    });
    const commands = { runPrompt: runPrompt.replaceAll("OUT", join(folder.path, "said.txt")) };
    writeFileSync(join(folder.path, "agent.yaml"), JSON.stringify({ kind: "Agent", commands }));
    const result = await evaluate("eval.yaml", { cwd: folder.path });
    expect(result.trials.map(({ verdict }) => verdict)).toEqual(["pass"]);
    expect(existsSync(join(folder.path, "pwned"))).toBe(false);
    return readFileSync(join(folder.path, "said.txt"), "utf8");
  }

  it.each([
    ["in double quotes", 'printf %s "{{ .Prompt }}" > OUT'],
    ["in a command inside another", 'P="$(printf %s "{{ .Prompt }}")"; printf %s "$P" > OUT'],
    [
      "with the escapes of Go, taken back",
      `FILE="$(mktemp)"\nprintf '%b' {{ printf "%q" .Prompt }} > "\${FILE}"\ncat "\${FILE}" > OUT\nrm "\${FILE}"`,
    ],
  ])("%s", async (_, runPrompt) => {
    expect(await said(runPrompt)).toBe(prompt);
  });
});

describe("a judge that cannot be asked is of interest only to tasks that ask one (docs/tasks.md)", () => {
  const judged = (name: string): string =>
    `kind: Task\nmetadata: { name: ${name} }\nsteps: { prompt: { inline: Hi. }, verify: { contains: done } }\n`;
  const files = {
    "eval.yaml":
      "kind: Eval\nconfig:\n  agent: { type: builtin.claude-code }\n" +
      "  llmJudge: { env: { baseUrlKey: JUDGE_URL, apiKeyKey: JUDGE_KEY, modelNameKey: JUDGE_MODEL } }\n" +
      "  taskSets: [{ glob: tasks/*.yaml }]\n",
    "tasks/plain.yaml":
      "kind: Task\nmetadata: { name: plain }\nsteps: { prompt: { inline: Hi. }, verify: { inline: touch $HOME/ran && test -f $HOME/ran } }\n",
    "tasks/one.yaml": judged("one"),
  };

  it("validate warns with the names of those tasks", async () => {
    using folder = folderOf({ ...files, "tasks/two.yaml": judged("two") });
    const { code, stderr } = await runHere(["validate", "eval.yaml"], { cwd: folder.path });
    expect(code).toBe(0);
    expect(stderr).toBe(
      "note: llmJudge: the variable JUDGE_URL is not set; llmJudge: the variable JUDGE_KEY is not set; " +
        "llmJudge: the variable JUDGE_MODEL is not set: the tasks that ask a judge cannot run without --judge MODEL: " +
        '"one", "two"\n',
    );
    const other = await runHere(["validate", "eval.yaml", "--task", "plain"], { cwd: folder.path });
    expect([other.code, other.stderr]).toEqual([0, ""]);
  });

  it("run refuses before anything starts, and runs what asks no judge", async () => {
    using folder = folderOf(files);
    const cwd = folder.path;
    const env = { HOME: cwd };
    const all = evaluate("eval.yaml", { cwd, env, agents: ["null"] });
    await expect(all).rejects.toMatchObject({ code: "config/unset-variable", kind: "usage" });
    expect(existsSync(join(cwd, "ran"))).toBe(false);
    const plain = await evaluate("eval.yaml", { cwd, env, agents: ["null"], tasks: ["plain"] });
    expect(plain.trials.map(({ verdict }) => verdict)).toEqual(["pass"]);
    expect(existsSync(join(cwd, "ran"))).toBe(true);
  });
});

describe("skills of an Eval are copied to where the agent looks for them (docs/guide.md)", () => {
  const files = {
    "eval.yaml":
      "kind: Eval\nconfig:\n  agent: { type: file, path: agent.yaml }\n" +
      "  skills: { sources: [{ type: path, path: ./skills/ }, { type: path, path: more/parting }] }\n" +
      "  taskSets: [{ path: task.yaml, assertions: { skillsLoaded: [{ skill: greeting }] } }]\n",
    "agent.yaml":
      "kind: Agent\ncommands:\n  runPrompt: 'cat .x/skills/greeting/SKILL.md .x/skills/parting/SKILL.md > $OUT; echo {{ .Prompt }}'\n" +
      "skills: { mountPath: .x/skills, toolName: load }\n",
    "task.yaml": "kind: Task\nmetadata: { name: t }\nsteps: { prompt: { inline: Hi. } }\n",
    "shared/greeting/SKILL.md": "greet\n",
    "more/parting/SKILL.md": "part\n",
  };

  it("also through links, and one skill by itself; what was not loaded is a failed assertion", async () => {
    using folder = folderOf({ ...files, "skills/README": "" });
    symlinkSync("../shared/greeting", join(folder.path, "skills/greeting"));
    const out = join(folder.path, "out.txt");
    const result = await evaluate("eval.yaml", { cwd: folder.path, env: { OUT: out } });
    expect(readFileSync(out, "utf8")).toBe("greet\npart\n");
    expect(result.trials.map(({ verdict, grades }) => [verdict, grades.at(-1)?.reason])).toEqual([
      ["fail", "skillsLoaded: the agent did not load greeting; it was given greeting, parting"],
    ]);
  });

  it("knows where the presets look", async () => {
    using folder = folderOf({ ...files, "skills/greeting/SKILL.md": "" });
    for (const [agent, mountPath, tool] of [
      ["claude-code", ".claude/skills", "Skill"],
      ["codex", ".agents/skills", undefined],
      ["gemini", ".gemini/skills", "activate_skill"],
      ["copilot", ".github/skills", "skill"],
      ["opencode", ".opencode/skills", "skill"],
      ["qwen-code", ".qwen/skills", "skill"],
    ] as const) {
      const { eval: spec } = await load(folder.path, { source: "eval.yaml", agents: [agent] });
      const folders = [join(folder.path, "skills"), join(folder.path, "more/parting")];
      const skills = { mountPath, folders, ...(tool === undefined ? {} : { tool }) };
      expect(spec.agents).toMatchObject([{ name: agent, skills }]);
    }
  });

  it("is refused for agents that have none, and for folders that are not there", async () => {
    using folder = folderOf(files);
    const whys = ["openai/gpt-5", "claude-code"].map(async (agent) => {
      const { message } = await failure(folder.path, { source: "eval.yaml", agents: [agent] });
      return message.replace(folder.path, "");
    });
    expect(await Promise.all(whys)).toEqual([
      'eval.yaml:4:11: the agent "openai/gpt-5" is a model, which has no skills',
      "eval.yaml:4:43: there is no folder /skills",
    ]);
    const { eval: spec } = await load(folder.path, { source: "eval.yaml", agents: ["null"] });
    expect(spec.agents).toEqual([{ type: "null", name: "null" }]);
  });

  it("is an error where the place in the workspace leads out of it", async () => {
    using folder = folderOf({
      ...files,
      "skills/greeting/SKILL.md": "",
      "task.yaml": `kind: Task\nmetadata: { name: t }\nsteps:\n  setup: { inline: 'true' }\n  prompt: { inline: Hi. }\n`,
    });
    const workspace = join(folder.path, "workspace");
    mkdirSync(workspace);
    symlinkSync("..", join(workspace, ".x"));
    const skills = { folders: [join(folder.path, "skills")], mountPath: ".x/skills2" };
    await expect(copySkills(skills, { workspace, emit: () => 0 })).rejects.toMatchObject({
      code: "agent/skills",
    });
    expect(existsSync(join(folder.path, "skills2"))).toBe(false);
  });
});
