import { expect, it } from "vitest";
import { chooseAgents, checkAgentTemplates, promptNotes } from "./declared-agents.ts";
import { formatKeyPath } from "../base/json.ts";

function check(...args: string[]): readonly string[] {
  const agents = { a: { type: "command", command: "x", args } };
  const { problems, notes } = checkAgentTemplates({ agents }, { servers: ["db", "my.srv-1"] });
  return [...problems.map(({ code, message, hint }) => `${code}: ${message} | ${hint}`), ...notes];
}

const at = "in agents.a.args[0]";

it.each<[string, string[]]>([
  ["{prompt} {mcpConfig}", []],
  [
    "--url={servers.my.srv-1.url}",
    [
      `config/public-secret: {servers.my.srv-1.url} ${at} would show a secret address to every user of this machine (ps) | Write it into a variable, such as env: { URL: "{servers.my.srv-1.url}" }, or use {mcpConfig}, a file that only you can read.`,
    ],
  ],
  ['{"a":{"b":1}} {} {other} {1,2} ${x} { echo; } {print}', []],
  ["{{prompt} {{promt} {{servers.bd.url}", []],
  [
    "--url={servers.bd.url}",
    [
      `config/unknown-reference: {servers.bd.url} ${at}: no server is named "bd" | Did you mean "db"? Known servers: db, my.srv-1.`,
    ],
  ],
  [
    "{mcpconfig}",
    [
      `config/unknown-reference: {mcpconfig} ${at} is not a placeholder | Did you mean {mcpConfig}? For the text itself write {{mcpconfig}.`,
    ],
  ],
  ["{work-space}", [expect.stringContaining("Did you mean {workspace}?") as string]],
  ["{servers.db}", [expect.stringContaining("Did you mean {servers.db.url}?") as string]],
  ["{servers.zzzzz}", [expect.stringContaining("Did you mean {servers.NAME.url}?") as string]],
  ["{promt}", [`{promt} ${at} stays as it is; did you mean {prompt}?`]],
  ["{ prompt }", [`{ prompt } ${at} stays as it is; did you mean {prompt}?`]],
  ["{{prompt}}", [`{{prompt}} ${at} writes {prompt}}; did you mean {prompt}?`]],
])("tells of %s", (text, expected) => {
  expect(check(text)).toEqual(expected);
});

it("looks at every text of agents that are started for each turn, and at no others", () => {
  const text = "{Cwd}";
  const agent = { type: "command", command: text, args: [text], nextArgs: ["x", text], env: { A: text } };
  const agents = { a: agent, b: { type: "acp", command: text, args: [text] }, c: "x/y", d: { plan: {} } };
  const { problems } = checkAgentTemplates({ agent, agents }, { path: ["config"], servers: [] });
  expect(problems.map(({ path }) => formatKeyPath(path))).toEqual(
    ["config.agent", "config.agents.a"].flatMap((where) => [
      `${where}.command`,
      `${where}.args[0]`,
      `${where}.nextArgs[1]`,
      `${where}.env.A`,
    ]),
  );
});

it("refuses a server URL in the command and its arguments, which are public, but not in env", () => {
  const text = "{servers.db.url}";
  const agent = { type: "command", command: text, args: [text], nextArgs: [text], env: { A: text } };
  const { problems } = checkAgentTemplates({ agent }, { servers: ["db"] });
  expect(problems.map(({ code, path }) => [code, formatKeyPath(path)])).toEqual(
    ["command", "args[0]", "nextArgs[0]"].map((place) => ["config/public-secret", `agent.${place}`]),
  );
});

const spec = { type: "command", name: "a", command: "x", args: [], env: {}, stdin: false };

it.each<[string, object, string[]]>([
  [
    "in no argument",
    {},
    ['agent "a" is never given the prompt: write {prompt} into its arguments, or set stdin: true'],
  ],
  [
    "in later arguments alone",
    { nextArgs: ["{prompt}"] },
    [expect.stringContaining("is never given the prompt") as string],
  ],
  ["as text", { args: ["{{prompt}"] }, [expect.stringContaining("is never given the prompt") as string]],
  [
    "in the first turn's arguments alone",
    { args: ["{prompt}"], nextArgs: ["-c"] },
    ['agent "a" is not given the prompt after the first turn: nextArgs has no {prompt}'],
  ],
  ["in an argument", { args: ["-p", "{prompt}"] }, []],
  ["on stdin", { stdin: true, nextArgs: [] }, []],
  ["to another kind of agent", { type: "acp" }, []],
])("notes an agent that is told the prompt %s", (_, parts, notes) => {
  expect(promptNotes([{ ...spec, ...parts }])).toEqual(notes);
});

it.each([
  ["codex", { type: "acp", preset: "codex" }],
  ["codex/gpt-5.2", { type: "acp", preset: "codex", model: "gpt-5.2" }],
  ["opencode/anthropic/claude-x", { type: "acp", preset: "opencode", model: "anthropic/claude-x" }],
  ["openai/gpt-5.2", "openai/gpt-5.2"],
])("takes %s for a preset, its model, or a model", (name, agent) => {
  const [choice] = chooseAgents({}, [name]);
  expect(choice).toMatchObject({ kind: "known", name, agent });
});
