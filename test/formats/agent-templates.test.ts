import { describe, expect, it } from "vitest";
import { folderOf } from "../support/cli.ts";
import { load, loadIn, problems } from "./support/load.ts";

const task = `apiVersion: mcp-eval/v1
kind: Task
metadata: { name: a }
spec:
  servers: { own: { command: node } }
  prompt: hi
  verify: [{ command: { run: "test -d ." } }]
`;

function config(args: string, more = ""): Readonly<Record<string, string>> {
  return {
    "mcp-eval.config.yaml": `servers: { db: { transport: stdio, command: node } }
variants: { plain: {}, other: { servers: { db: null, new: { command: node } } } }
tasks: [task.yaml]
agents:
  mine:
    type: command
    command: my-agent
    args: ${args}
${more}`,
    "task.yaml": task,
  };
}

describe("templates in the arguments and variables of an agent program", () => {
  it("may refer to the URL of every server that any trial has", async () => {
    const env = ["db", "new", "own"].map((name) => `${name}: "{servers.${name}.url}"`).join(", ");
    expect((await loadIn(config('["{prompt}"]', `    env: { ${env} }\n`))).notes).toEqual([]);
  });

  it("are refused for unknown servers and misspelled names", async () => {
    using folder = folderOf(config('["{prompt}", "--at={servers.dbb.url}", "{mcpconfig}"]'));
    expect(await problems(folder.path)).toEqual([
      'mcp-eval.config.yaml:8:30 config/unknown-reference {servers.dbb.url} in agents.mine.args[1]: no server is named "dbb"',
      "mcp-eval.config.yaml:8:51 config/unknown-reference {mcpconfig} in agents.mine.args[2] is not a placeholder",
    ]);
  });

  it("are noted when they are probably a typo, or when none gives the program the prompt", async () => {
    using folder = folderOf(config('["{promt}"]'));
    expect((await load(folder.path)).notes).toEqual([
      "{promt} in agents.mine.args[0] stays as it is; did you mean {prompt}?",
      'agent "mine" is never given the prompt: write {prompt} into its arguments, or set stdin: true',
    ]);
    using withStdin = folderOf(config("[]", "    stdin: true\n"));
    expect((await load(withStdin.path)).notes).toEqual([]);
  });

  it("are not checked in presets and in inherited environment variables", async () => {
    using folder = folderOf({
      ...config("[]", "    stdin: true\n    inheritEnv: true\n  codex: { type: command, preset: codex }\n"),
    });
    const environment = { ODD: "{Prompt} {servers.none.url}" };
    expect((await load(folder.path, { environment })).notes).toEqual([]);
  });

  it("are checked in an Eval", async () => {
    using folder = folderOf({
      "eval.yaml": `kind: Eval
metadata: { name: demo }
config:
  servers: { db: { transport: stdio, command: node } }
  agents: { mine: { type: command, command: x, args: ["{servers.bd.url}"] } }
  taskSets: [{ path: task.yaml }]
`,
      "task.yaml": task,
    });
    expect(await problems(folder.path, { source: "eval.yaml" })).toEqual([
      'eval.yaml:5:56 config/unknown-reference {servers.bd.url} in config.agents.mine.args[0]: no server is named "bd"',
    ]);
  });

  it("are noted as missing in a shell command without a prompt", async () => {
    using folder = folderOf({
      "eval.yaml": `kind: Eval
metadata: { name: demo }
config:
  agent: { type: file, path: agent.yaml }
  taskSets: [{ path: task.yaml }]
`,
      "agent.yaml": "kind: Agent\nmetadata: { name: promptless }\ncommands: { runPrompt: my-agent --go }\n",
      "task.yaml": task,
    });
    expect((await load(folder.path, { source: "eval.yaml" })).notes).toEqual([
      "agent.yaml:3:13: the agent is never given the prompt: runPrompt has no {{ .Prompt }}",
    ]);
  });

  it("are checked in a waza eval", async () => {
    const files = (args: string): Readonly<Record<string, string>> => ({
      "eval.yaml": `name: demo
config:
  timeout_seconds: 5
  mcp_servers: { db: { command: node } }
agent: { type: command, command: x, args: ${args} }
tasks: [a.yaml]
graders: [{ type: behavior, config: { max_tool_calls: 2 } }]
`,
      "a.yaml": "id: a\ninputs: { prompt: Do it. }\n",
    });
    using wrong = folderOf(files('["{servers.bd.url}"]'));
    expect(await problems(wrong.path, { source: "eval.yaml" })).toEqual([
      'eval.yaml:5:45 config/unknown-reference {servers.bd.url} in agent.args[0]: no server is named "bd"',
    ]);
    using promptless = folderOf(files('["{mcpConfig}"]'));
    expect((await load(promptless.path, { source: "eval.yaml" })).notes).toContainEqual(
      expect.stringContaining("is never given the prompt"),
    );
  });
});
