import { describe, expect, it } from "vitest";
import type { ServerSpec } from "../model.ts";
import { shellAgent, type ShellCommands } from "./parse-agent-file.ts";

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
    ["x <<E\n{{ .Prompt }}\nE", "x <<E\n${{MCPVALS_PROMPT}\nE"],
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
    [{ runPrompt: "x '{{ .Prompt }}" }, "runPrompt: single quotes do not end"],
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
