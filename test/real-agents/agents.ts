/** A real agent program, set up so that its model is on loopback. */
export interface RealAgent {
  readonly preset: "codex" | "gemini" | "copilot" | "opencode";
  /** Files of its home folder; `url` is the model's address. */
  readonly home: (url: string) => Readonly<Record<string, string>>;
  readonly env: (url: string) => Readonly<Record<string, string>>;
  /** Whether its own log tells of tokens. */
  readonly tellsUsage: { readonly acp: boolean; readonly command: boolean };
}

export const realAgents: readonly RealAgent[] = [
  {
    preset: "codex",
    home: (url) => ({
      ".codex/config.toml": [
        'model = "fake"',
        'model_provider = "loopback"',
        "[model_providers.loopback]",
        'name = "loopback"',
        `base_url = "${url}/v1"`,
        'wire_api = "responses"',
        "",
      ].join("\n"),
    }),
    env: () => ({}),
    tellsUsage: { acp: true, command: true },
  },
  {
    preset: "gemini",
    home: () => ({
      ".gemini/settings.json": JSON.stringify({ security: { auth: { selectedType: "gemini-api-key" } } }),
    }),
    env: (url) => ({ GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: "loopback-key-1" }),
    tellsUsage: { acp: false, command: true },
  },
  {
    preset: "copilot",
    home: () => ({}),
    env: (url) => ({
      COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
      COPILOT_PROVIDER_API_KEY: "loopback-key-1",
      COPILOT_MODEL: "fake",
    }),
    tellsUsage: { acp: true, command: false },
  },
  {
    preset: "opencode",
    home: (url) => ({
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
      }),
    }),
    env: () => ({ OPENCODE_DISABLE_MODELS_FETCH: "1" }),
    tellsUsage: { acp: true, command: true },
  },
];
