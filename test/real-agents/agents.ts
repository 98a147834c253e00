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
  /** Variables that lead it to the model without any file of the home, and with the login of a file. */
  readonly away: (url: string) => Readonly<Record<string, string>>;
  /** Arguments that do the same for its command, before all others. */
  readonly awayArgs?: (url: string) => readonly string[];
  /** A file of the home with a login that has `token`. */
  readonly login: (token: string) => Readonly<Record<string, string>>;
  /** Whether the model on loopback is sent the token of that file. */
  readonly sendsToken: boolean;
  /**
   * Files of the home that say `words` to the model, or run `command`, as instructions, hooks, skills and plug-ins do; `token` is that of
   * the login, where one of them has both.
   */
  readonly planted: (words: string, command: string, token: string) => Readonly<Record<string, string>>;
  /** Its tool that runs commands, by the end of its name. */
  readonly shell: { readonly tool: string; readonly args: (command: string) => object };
  /** Words that only its own system prompt has. */
  readonly ownWords: string;
  /** The mode of its session in which it only plans, and words that it tells its model of that. */
  readonly planMode: { readonly id: string; readonly words: string };
  /** Whether its own log tells of tokens. */
  readonly tellsUsage: { readonly acp: boolean; readonly command: boolean };
}

/** A time at which no test runs any more, in milliseconds. */
const farAway = Date.UTC(2200, 0, 1);

function skill(words: string): string {
  return `---\nname: planted\ndescription: ${words}\n---\n${words}\n`;
}

/** A login of Codex with ChatGPT, whose parts tell who the user is. */
export function chatgptLogin(token: string): Readonly<Record<string, string>> {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const account = { chatgpt_plan_type: "plus", chatgpt_account_id: "account" };
  const id = { email: "me@example.com", exp: farAway / 1000, "https://api.openai.com/auth": account };
  const tokens = {
    id_token: `${part({ alg: "none" })}.${part(id)}.x`,
    access_token: token,
    refresh_token: `${token}-to-refresh`,
    account_id: "account",
  };
  const login = { OPENAI_API_KEY: null, tokens, last_refresh: "2026-01-01T00:00:00Z" };
  return { ".codex/auth.json": JSON.stringify(login) };
}

function codexConfig(url: string) {
  const loopback = {
    name: "loopback",
    base_url: `${url}/v1`,
    wire_api: "responses",
    requires_openai_auth: true,
  };
  return { model: "fake", model_provider: "loopback", model_providers: { loopback } };
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
    away: (url) => ({ ANTHROPIC_BASE_URL: url, ENABLE_TOOL_SEARCH: "false" }),
    login: (token) => ({
      ".claude/.credentials.json": JSON.stringify({
        claudeAiOauth: {
          accessToken: token,
          refreshToken: `${token}-to-refresh`,
          expiresAt: farAway,
          scopes: ["user:inference"],
        },
      }),
    }),
    sendsToken: true,
    planted: (words, command) => ({
      ".claude/CLAUDE.md": words,
      ".claude/skills/planted/SKILL.md": skill(words),
      ".claude/agents/planted.md": skill(words),
      ".claude/settings.json": JSON.stringify({
        hooks: {
          SessionStart: [{ hooks: [{ type: "command", command }] }],
          UserPromptSubmit: [{ hooks: [{ type: "command", command }] }],
        },
      }),
    }),
    shell: { tool: "Bash", args: (command) => ({ command, description: "x" }) },
    ownWords: "Assist with authorized security testing",
    planMode: { id: "plan", words: "Plan mode is active" },
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
    away: (url) => ({ CODEX_CONFIG: JSON.stringify(codexConfig(url)) }),
    awayArgs: (url) =>
      Object.entries(codexConfig(url).model_providers.loopback)
        .map(([key, value]) => `model_providers.loopback.${key}=${JSON.stringify(value)}`)
        .concat(['model="fake"', 'model_provider="loopback"'])
        .flatMap((setting) => ["--config", setting]),
    login: (token) => ({ ".codex/auth.json": JSON.stringify({ OPENAI_API_KEY: token }) }),
    sendsToken: true,
    planted: (words, command) => ({
      ".codex/AGENTS.md": words,
      ".codex/skills/planted/SKILL.md": skill(words),
      ".agents/skills/planted/SKILL.md": skill(words),
      ".codex/hooks.json": JSON.stringify({
        hooks: { SessionStart: [{ hooks: [{ type: "command", command }] }] },
      }),
    }),
    shell: { tool: "exec_command", args: (command) => ({ cmd: command }) },
    ownWords: "You are a coding agent",
    planMode: { id: "read-only", words: "read-only" },
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
    away: (url) => ({ GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: "loopback-key-1" }),
    login: (token) => ({
      ".gemini/oauth_creds.json": JSON.stringify({ access_token: token, expiry_date: farAway }),
      ".gemini/settings.json": JSON.stringify({ security: { auth: { selectedType: "oauth-personal" } } }),
    }),
    sendsToken: false,
    planted: (words, command) => ({
      ".gemini/GEMINI.md": words,
      ".gemini/skills/planted/SKILL.md": skill(words),
      ".gemini/extensions/planted/gemini-extension.json": JSON.stringify({
        name: "planted",
        version: "1.0.0",
        mcpServers: { planted: { command: "sh", args: ["-c", command] } },
      }),
      ".gemini/settings.json": JSON.stringify({
        security: { auth: { selectedType: "gemini-api-key" } },
        mcpServers: { planted: { command: "sh", args: ["-c", command] } },
        hooks: { SessionStart: [{ hooks: [{ type: "command", command }] }] },
      }),
    }),
    shell: { tool: "run_shell_command", args: (command) => ({ command, description: "x" }) },
    ownWords: "Core Mandates",
    planMode: { id: "plan", words: "Plan Mode" },
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
    away: (url) => ({
      COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
      COPILOT_PROVIDER_API_KEY: "loopback-key-1",
      COPILOT_MODEL: "fake",
    }),
    login: (token) => ({
      ".copilot/config.json": `// Written by the program.\n${JSON.stringify({
        copilotTokens: { "https://github.com:me": token },
        loggedInUsers: [{ host: "https://github.com", login: "me" }],
        lastLoggedInUser: { host: "https://github.com", login: "me" },
        theme: "dark",
      })}`,
    }),
    sendsToken: false,
    planted: (words, command) => ({
      ".copilot/copilot-instructions.md": words,
      ".copilot/skills/planted/SKILL.md": skill(words),
      ".copilot/agents/planted.md": skill(words),
      ".copilot/hooks/planted.json": JSON.stringify({
        version: 1,
        hooks: { sessionStart: [{ type: "command", bash: command }] },
      }),
    }),
    shell: { tool: "bash", args: (command) => ({ command, description: "x" }) },
    ownWords: "# Tone and style",
    planMode: {
      id: "https://agentclientprotocol.com/protocol/session-modes#plan",
      words: "plan",
    },
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
            models: { fake: { name: "fake", reasoning: true } },
          },
        },
        ...(own === undefined
          ? {}
          : { mcp: { [own.name]: { type: "local", command: [own.command, ...own.args] } } }),
      }),
    }),
    env: () => ({ OPENCODE_DISABLE_MODELS_FETCH: "1" }),
    away: (url) => ({
      OPENCODE_DISABLE_MODELS_FETCH: "1",
      OPENCODE_CONFIG_CONTENT: JSON.stringify({
        model: "loopback/fake",
        provider: {
          loopback: {
            npm: "@ai-sdk/openai-compatible",
            options: { baseURL: `${url}/v1` },
            models: { fake: { name: "fake", reasoning: true } },
          },
        },
      }),
    }),
    login: (token) => ({
      ".local/share/opencode/auth.json": JSON.stringify({ loopback: { type: "api", key: token } }),
    }),
    sendsToken: true,
    planted: (words, command) => ({
      ".config/opencode/AGENTS.md": words,
      ".claude/CLAUDE.md": words,
      ".claude/skills/planted/SKILL.md": skill(words),
      ".config/opencode/skills/planted/SKILL.md": skill(words),
      ".config/opencode/plugin/planted.js": `export const planted = async ({ $ }) => { await $\`sh -c \${${JSON.stringify(command)}}\`; return {}; };`,
    }),
    shell: { tool: "bash", args: (command) => ({ command, description: "x" }) },
    ownWords: "You are opencode",
    planMode: { id: "plan", words: "Plan" },
    tellsUsage: { acp: true, command: true },
  },
  {
    preset: "qwen-code",
    home: (_, own) => ({
      ".qwen/settings.json": JSON.stringify({
        security: { auth: { selectedType: "openai" } },
        mcpServers: mcpServers(own),
      }),
    }),
    env: (url) => ({
      OPENAI_BASE_URL: `${url}/v1`,
      OPENAI_API_KEY: "loopback-key-1",
      OPENAI_MODEL: "fake",
    }),
    away: (url) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: "fake" }),
    login: (token) => ({
      ".qwen/settings.json": JSON.stringify({
        security: { auth: { selectedType: "openai", apiKey: token } },
      }),
    }),
    sendsToken: true,
    planted: (words, command, token) => ({
      ".qwen/settings.json": JSON.stringify({
        security: { auth: { selectedType: "openai", apiKey: token } },
        mcpServers: { planted: { command: "sh", args: ["-c", command] } },
        hooks: {
          SessionStart: [{ hooks: [{ type: "command", command }] }],
          UserPromptSubmit: [{ hooks: [{ type: "command", command }] }],
        },
      }),
      ".qwen/QWEN.md": words,
      ".qwen/skills/planted/SKILL.md": skill(words),
      ".qwen/agents/planted.md": skill(words),
      ".qwen/extensions/planted/qwen-extension.json": JSON.stringify({
        name: "planted",
        version: "1.0.0",
        mcpServers: { planted: { command: "sh", args: ["-c", command] } },
      }),
    }),
    shell: {
      tool: "run_shell_command",
      args: (command) => ({ command, description: "x", is_background: false }),
    },
    ownWords: "Core Mandates",
    planMode: { id: "plan", words: "Plan mode is active" },
    tellsUsage: { acp: false, command: true },
  },
];

function mcpServers(own: OwnServer | undefined): object {
  if (own === undefined) return {};
  const { name, command, args } = own;
  return { [name]: { type: "stdio", command, args, tools: ["*"] } };
}
