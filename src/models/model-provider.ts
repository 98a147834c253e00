/** The wire format that a provider speaks. */
export type ModelWire = "anthropic" | "openai-responses" | "openai-chat" | "openai-compatible" | "google";

/** Where a kind of model is found and what it needs; everything that tells providers apart before one is loaded. */
export interface ModelProvider {
  readonly name: string;
  readonly wire: ModelWire;
  /** Absent: the user has to give it. */
  readonly baseURL?: string;
  /** Environment variables that replace `baseURL`, the first that is set. */
  readonly urlVariables: readonly string[];
  /** Environment variables that hold a key, the first that is set. Empty: no key is needed. */
  readonly keyVariables: readonly string[];
  /** Model names that mean this provider when no provider is written before them. */
  readonly bareNames?: RegExp;
  /** Adds to a base URL's path what the AI SDK expects and the provider's own tools do not write. */
  completePath(path: string): string;
}

const asWritten = (path: string): string => path;
const withV1 = (path: string): string => (path === "" ? "/v1" : path);

export const modelProviders: readonly ModelProvider[] = [
  {
    name: "anthropic",
    wire: "anthropic",
    baseURL: "https://api.anthropic.com/v1",
    urlVariables: ["ANTHROPIC_BASE_URL"],
    keyVariables: ["ANTHROPIC_API_KEY"],
    bareNames: /^claude-/,
    completePath: (path) => (path.endsWith("/v1") ? path : `${path}/v1`),
  },
  {
    name: "openai",
    wire: "openai-responses",
    baseURL: "https://api.openai.com/v1",
    urlVariables: ["OPENAI_BASE_URL"],
    keyVariables: ["OPENAI_API_KEY"],
    bareNames: /^(?:gpt-|chatgpt-|o\d)/,
    completePath: withV1,
  },
  {
    name: "google",
    wire: "google",
    baseURL: "https://generativelanguage.googleapis.com/v1beta",
    urlVariables: ["GOOGLE_GEMINI_BASE_URL"],
    keyVariables: ["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"],
    bareNames: /^gemini-/,
    completePath: (path) => (/\/v\d\w*$/.test(path) ? path : `${path}/v1beta`),
  },
  {
    name: "ollama",
    wire: "openai-compatible",
    baseURL: "http://127.0.0.1:11434/v1",
    urlVariables: [],
    keyVariables: [],
    completePath: withV1,
  },
  {
    name: "lmstudio",
    wire: "openai-compatible",
    baseURL: "http://127.0.0.1:1234/v1",
    urlVariables: [],
    keyVariables: [],
    completePath: withV1,
  },
  {
    name: "openai-compatible",
    wire: "openai-compatible",
    urlVariables: [],
    keyVariables: [],
    completePath: asWritten,
  },
];
