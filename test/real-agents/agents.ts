import type { AgentPreset } from "../../src/agents/programs/presets.ts";

/** A server in the user's own config. */
export interface OwnServer {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
}

/** A real agent program, set up so that its model is on loopback. */
export interface RealAgent {
  readonly preset: AgentPreset;
  /** Files of its home folder; `url` is the model's address. */
  readonly home: (url: string, own?: OwnServer) => Readonly<Record<string, string>>;
  readonly env: (url: string) => Readonly<Record<string, string>>;
  /** Whether its own log tells of tokens. */
  readonly tellsUsage: { readonly acp: boolean; readonly command: boolean };
}

export const realAgents: readonly RealAgent[] = [
  {
    preset: "claude-code",
    home: (_, own) => ({ ".claude.json": JSON.stringify({ mcpServers: mcpServers(own) }) }),
    // Otherwise the model has to look for tools before it sees them.
    env: (url) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: "loopback-key-1",
      ENABLE_TOOL_SEARCH: "false",
    }),
    tellsUsage: { acp: true, command: true },
  },
  {
    preset: "codex",
    home: (url, own) => ({
      ".codex/config.toml": [
        'model = "fake"',
        'model_provider = "loopback"',
        "[model_providers.loopback]",
        'name = "loopback"',
        `base_url = "${url}/v1"`,
        'wire_api = "responses"',
        ...(own === undefined
          ? []
          : [
              `[mcp_servers.${own.name}]`,
              `command = "${own.command}"`,
              `args = ${JSON.stringify(own.args)}`,
            ]),
        "",
      ].join("\n"),
    }),
    env: () => ({}),
    tellsUsage: { acp: true, command: true },
  },
  {
    preset: "gemini",
    home: (_, own) => ({
      ".gemini/settings.json": JSON.stringify({
        security: { auth: { selectedType: "gemini-api-key" } },
        mcpServers: mcpServers(own),
      }),
    }),
    env: (url) => ({ GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: "loopback-key-1" }),
    tellsUsage: { acp: false, command: true },
  },
  {
    preset: "copilot",
    home: (_, own) => ({ ".copilot/mcp-config.json": JSON.stringify({ mcpServers: mcpServers(own) }) }),
    env: (url) => ({
      COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
      COPILOT_PROVIDER_API_KEY: "loopback-key-1",
      COPILOT_MODEL: "fake",
    }),
    tellsUsage: { acp: true, command: false },
  },
  {
    preset: "opencode",
    home: (url, own) => ({
      ".config/opencode/opencode.json": JSON.stringify({
        $schema: "https://opencode.ai/config.json",
        model: "loopback/fake",
        provider: {
          loopback: {
            npm: "@ai-sdk/openai-compatible",
            options: { baseURL: `${url}/v1`, apiKey: "loopback-key-1" },
            models: { fake: { name: "fake" } },
          },
        },
        ...(own === undefined
          ? {}
          : { mcp: { [own.name]: { type: "local", command: [own.command, ...own.args] } } }),
      }),
    }),
    env: () => ({ OPENCODE_DISABLE_MODELS_FETCH: "1" }),
    tellsUsage: { acp: true, command: true },
  },
];

function mcpServers(own: OwnServer | undefined): object {
  if (own === undefined) return {};
  const { name, command, args } = own;
  return { [name]: { type: "stdio", command, args, tools: ["*"] } };
}
