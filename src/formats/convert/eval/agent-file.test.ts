import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { formatKeyPath } from "../../../base/json.ts";
import type { ServerSpec } from "../../../model/server.ts";
import { parseAgentFile, type ParsedAgentFile, shellAgent, type ShellCommands } from "./agent-file.ts";

function parse(yaml: string): ParsedAgentFile {
  return parseAgentFile(parseYaml(yaml), {
    locate: ({ path }) => ({ file: "agent.yaml", path: formatKeyPath(path) }),
  });
}

it.each([
  [
    "builtin: {type: llm-agent, model: 'openai:gpt-5', baseUrl: 'http://127.0.0.1:1/v1', apiKey: MY_KEY}",
    { kind: "llm-agent", model: "openai/gpt-5", baseURL: "http://127.0.0.1:1/v1", apiKeyVariable: "MY_KEY" },
    "the built-in model loop with openai/gpt-5",
  ],
  [
    "builtin: {type: openai-agent, model: gpt-4o}",
    {
      kind: "llm-agent",
      model: "openai/gpt-4o",
      baseURLVariable: "MODEL_BASE_URL",
      apiKeyVariable: "MODEL_KEY",
    },
    "the built-in model loop with openai/gpt-4o",
  ],
  ["builtin: {type: claude-code}", { kind: "claude-code" }, "Claude Code, over the Agent Client Protocol"],
  [
    "acp: {cmd: my-agent, args: [--acp]}",
    { kind: "acp", command: "my-agent", args: ["--acp"] },
    'a program that speaks the Agent Client Protocol, "my-agent"',
  ],
  [
    "commands: {runPrompt: 'codex exec {{ printf \"%q\" .Prompt }}', useVirtualHome: false}",
    {
      kind: "shell",
      commands: {
        runPrompt: 'codex exec {{ printf "%q" .Prompt }}',
        argTemplateMcpServer: "",
        argTemplateAllowedTools: "",
        allowedToolsJoinSeparator: " ",
      },
    },
    "a program that is started with a shell command",
  ],
])("reads %s", (yaml, agent, description) => {
  expect(parse(`kind: Agent\nmetadata: {name: a, version: 1.0}\n${yaml}`)).toMatchObject({
    ok: true,
    file: { name: "a", agent, description },
  });
});

it("tells what has no effect", () => {
  const parsed = parse(`
kind: Agent
builtin: {type: openai-acp, model: gpt-4o}
acp: {cmd: x}
skills: {mountPath: a, toolName: b}
`);
  expect(parsed).toMatchObject({
    ok: true,
    notes: [
      "agent.yaml: acp has no effect: builtin wins",
      "agent.yaml: openai-acp is the old name of llm-agent",
      "agent.yaml: skills has no effect: builtin wins",
    ],
  });
});

it("tells where the agent looks for skills", () => {
  expect(
    parse("kind: Agent\nacp: {cmd: x}\nskills: {mountPath: ./.x//skills/, toolName: load}"),
  ).toMatchObject({ ok: true, file: { skills: { mountPath: ".x/skills", tool: "load" } }, notes: [] });
});

it.each([
  ["kind: Agent\nacp: {cmd: a}\nskills: {toolName: b}", "skills", "skills needs mountPath"],
  ["kind: Agent\nacp: {cmd: a}\nskills: {mountPath: b}", "skills", "skills needs toolName"],
  ...["/x", "../x", "a/../../x", ".", "C:\\x"].map((path) => [
    `kind: Agent\nacp: {cmd: a}\nskills: {mountPath: '${path}', toolName: b}`,
    "skills.mountPath",
    "mountPath must be a folder inside the workspace",
  ]),
  ["kind: Task\nacp: {cmd: a}", "kind", 'kind must be "Agent"'],
  ["kind: Agent", "", "the agent needs builtin, acp, or commands with runPrompt"],
  [
    "kind: Agent\nbuiltin: {type: llm-agent, model: gpt-5}",
    "builtin.model",
    "model must be PROVIDER:MODEL, such as anthropic:claude-sonnet-4-5",
  ],
  [
    "kind: Agent\nbuiltin: {type: robot}",
    "builtin.type",
    'builtin.type must be "claude-code", "llm-agent", "openai-agent" or "openai-acp"',
  ],
])("refuses %j", (yaml, path, message) => {
  expect(parse(yaml)).toMatchObject({ ok: false, diagnostics: [{ message, location: { path } }] });
});

const server: ServerSpec = {
  transport: "shttp",
  url: "http://x",
  headers: {},
  startupTimeoutMs: 1,
  maxMessageBytes: 1,
};
const some = { db: { ...server, tools: ["query", "get_x"] } };

function made(
  commands: Partial<ShellCommands>,
  servers: Readonly<Record<string, ServerSpec>> = some,
): string {
  const agent = shellAgent(
    {
      runPrompt: "",
      argTemplateMcpServer: "",
      argTemplateAllowedTools: "",
      allowedToolsJoinSeparator: " ",
      ...commands,
    },
    { shell: "sh", servers },
  );
  return agent.ok ? (agent.args[1] ?? "").replace("exec 2>&1\n", "") : `${agent.key}: ${agent.reason}`;
}

const prompt = "$MCPVALS_PROMPT";
const file = "$MCPVALS_MCP_CONFIG";

describe("a line for the shell", () => {
  it.each([
    ["x {{ .Prompt }}", `x "${prompt}"`],
    ['x "{{ .Prompt }}"', `x """${prompt}"""`],
    ["x '{{.Prompt}}'", `x ''"${prompt}"''`],
    ['x "say \\"{{ .Prompt }}\\""', `x "say \\"""${prompt}""\\""`],
    ['x {{ printf "%q" .Prompt }}', `x "${prompt}"`],
    [`printf '%b' {{ printf "%q" .Prompt }}`, `printf '%s' "${prompt}"`],
    [`x '{"a": {{ printf "%q" .Prompt }}}'`, `x '{{"a": '"$MCPVALS_PROMPT_JSON"'}'`],
    ["x <<E\n{{ .Prompt }}\nE", "runPrompt: a value is in or after a here-document"],
    ['x "$(y "{{ .Prompt }}")"', `x "$(y """${prompt}""")"`],
    ["x {{- .Prompt -}} y", `x"${prompt}"y`],
    ["x ${HOME} {y}", "x ${{HOME} {{y}"],
  ])("%s", (runPrompt, line) => {
    expect(made({ runPrompt })).toBe(line);
  });

  it("names the file with the servers, or the address of the only one, and the tools", () => {
    const runPrompt = 'x {{ .McpServerFileArgs }} -a "{{ .AllowedToolArgs }}"';
    const argTemplateAllowedTools = "{{ .ServerName }}.{{ .ToolName }}";
    const commands = { runPrompt, argTemplateAllowedTools, allowedToolsJoinSeparator: "," };
    expect(made({ ...commands, argTemplateMcpServer: "--mcp {{ .File }}" })).toBe(
      `x --mcp "${file}" -a "db.query,db.get_x"`,
    );
    expect(made({ ...commands, argTemplateMcpServer: "--url {{ .URL }}" })).toBe(
      `x --url "$MCPVALS_SERVER_URL" -a "db.query,db.get_x"`,
    );
    expect(made({ ...commands, argTemplateMcpServer: "--mcp {{ .File }}" }, {})).toBe('x  -a ""');
  });

  it("knows the word of Claude Code for all tools of a server", () => {
    const argTemplateAllowedTools = "mcp__{{ .ServerName }}__{{ .ToolName }}";
    expect(made({ runPrompt: "x {{ .AllowedToolArgs }}", argTemplateAllowedTools }, { db: server })).toBe(
      "x mcp__db",
    );
  });

  it.each<[Partial<ShellCommands>, string]>([
    [{ runPrompt: "x {{ .Other }}" }, "runPrompt: nothing is known of {{ .Other }}"],
    [{ runPrompt: "x '{{ .Prompt }}" }, "runPrompt: ' does not end"],
    [
      { runPrompt: "x {{ .AllowedToolArgs }}", argTemplateAllowedTools: "{{ .ToolName }}" },
      "argTemplateAllowedTools: the tools of b are not known: list them in alwaysAllow of the MCP config file",
    ],
    [
      { runPrompt: "x {{ .McpServerFileArgs }}", argTemplateMcpServer: "{{ .URL }}" },
      "argTemplateMcpServer: there is more than one server",
    ],
  ])("is refused by its key: %j", (commands, refusal) => {
    expect(made(commands, { a: { ...server, tools: ["t"] }, b: server })).toBe(refusal);
  });
});
