import { expect, test } from "vitest";
import type { ModelSpec } from "../core/formats/model.ts";
import { type Environment, locateModel } from "./locate-model.ts";

const keys: Environment = { ANTHROPIC_API_KEY: "a", OPENAI_API_KEY: "o", GEMINI_API_KEY: "g" };

test.each<[ModelSpec, Environment, object]>([
  [
    { model: "anthropic/claude-sonnet-4-5" },
    keys,
    {
      label: "anthropic/claude-sonnet-4-5",
      provider: "anthropic",
      model: "claude-sonnet-4-5",
      wire: "anthropic",
      baseURL: "https://api.anthropic.com/v1",
      apiKey: "a",
      headers: {},
    },
  ],
  [
    { model: "openai/gpt-5", headers: { "x-team": "t" } },
    keys,
    {
      label: "openai/gpt-5",
      provider: "openai",
      model: "gpt-5",
      wire: "openai-responses",
      baseURL: "https://api.openai.com/v1",
      apiKey: "o",
      headers: { "x-team": "t" },
    },
  ],
  [
    { model: "google/gemini-2.5-pro" },
    keys,
    {
      label: "google/gemini-2.5-pro",
      provider: "google",
      model: "gemini-2.5-pro",
      wire: "google",
      baseURL: "https://generativelanguage.googleapis.com/v1beta",
      apiKey: "g",
      headers: {},
    },
  ],
  [
    { model: "ollama/qwen3:8b" },
    {},
    {
      label: "ollama/qwen3:8b",
      provider: "ollama",
      model: "qwen3:8b",
      wire: "openai-compatible",
      baseURL: "http://127.0.0.1:11434/v1",
      headers: {},
    },
  ],
])("%j", (spec, env, expected) => {
  expect(locateModel(spec, env)).toEqual(expected);
});

test.each<[ModelSpec, string, string, string]>([
  [{ model: "claude-opus-4-5" }, "anthropic", "anthropic", "claude-opus-4-5"],
  [{ model: "gpt-4o-mini" }, "openai", "openai-responses", "gpt-4o-mini"],
  [{ model: "o3" }, "openai", "openai-responses", "o3"],
  [{ model: "gemini-2.5-flash" }, "google", "google", "gemini-2.5-flash"],
  [{ model: "openai/gpt-4o", api: "chat" }, "openai", "openai-chat", "gpt-4o"],
  [{ model: "lmstudio/org/model" }, "lmstudio", "openai-compatible", "org/model"],
  [
    { model: "claude-opus-4-5", baseURL: "http://h/v1" },
    "openai-compatible",
    "openai-compatible",
    "claude-opus-4-5",
  ],
  [
    { model: "meta-llama/llama-4", baseURL: "http://h/v1" },
    "openai-compatible",
    "openai-compatible",
    "meta-llama/llama-4",
  ],
  [{ model: "openai-compatible/m", baseURL: "http://h/v1" }, "openai-compatible", "openai-compatible", "m"],
  [
    { model: "openai-compatible/m", baseURL: "http://h/v1", api: "responses" },
    "openai-compatible",
    "openai-responses",
    "m",
  ],
  [{ model: "anthropic/m", baseURL: "http://h" }, "anthropic", "anthropic", "m"],
  [{ model: "google/m", baseURL: "http://h" }, "google", "google", "m"],
])("%j is a model of %s over %s called %s", (spec, provider, wire, model) => {
  expect(locateModel(spec, keys)).toMatchObject({ provider, wire, model });
});

test.each<[string, ModelSpec, Environment]>([
  ["http://h/v1", { model: "anthropic/m", baseURL: "http://h" }, {}],
  ["http://h/v1", { model: "anthropic/m" }, { ANTHROPIC_BASE_URL: "http://h/" }],
  ["http://h/proxy/v1", { model: "anthropic/m" }, { ANTHROPIC_BASE_URL: "http://h/proxy" }],
  ["http://h/proxy/v1", { model: "anthropic/m" }, { ANTHROPIC_BASE_URL: "http://h/proxy/v1/" }],
  [
    "http://spec/v1",
    { model: "anthropic/m", baseURL: "http://spec/v1" },
    { ANTHROPIC_BASE_URL: "http://env" },
  ],
  ["https://api.anthropic.com/v1", { model: "anthropic/m" }, { ANTHROPIC_BASE_URL: "" }],
  ["http://h/v1", { model: "openai/m" }, { OPENAI_BASE_URL: "http://h" }],
  ["http://h/openai", { model: "openai/m" }, { OPENAI_BASE_URL: "http://h/openai" }],
  ["http://h/v1beta", { model: "google/m" }, { GOOGLE_GEMINI_BASE_URL: "http://h" }],
  ["http://h/v1beta", { model: "google/m" }, { GOOGLE_GEMINI_BASE_URL: "http://h/v1beta" }],
  ["http://h:11434/v1", { model: "ollama/m", baseURL: "http://h:11434" }, {}],
  ["http://h/api", { model: "m", baseURL: "http://h/api/" }, {}],
])("the base URL %s of %j with %j", (expected, spec, env) => {
  expect(locateModel(spec, { ...keys, ...env }).baseURL).toBe(expected);
});

test.each<[string | undefined, ModelSpec, Environment]>([
  ["spec", { model: "anthropic/m", apiKey: "spec" }, keys],
  ["a", { model: "anthropic/m", apiKey: "" }, keys],
  [
    "1",
    { model: "google/m" },
    { GOOGLE_GENERATIVE_AI_API_KEY: "1", GEMINI_API_KEY: "2", GOOGLE_API_KEY: "3" },
  ],
  ["3", { model: "google/m" }, { GOOGLE_GENERATIVE_AI_API_KEY: "", GOOGLE_API_KEY: "3" }],
  [undefined, { model: "m", baseURL: "http://h" }, keys],
])("the key %s opens %j", (expected, spec, env) => {
  expect(locateModel(spec, env).apiKey).toBe(expected);
});

test.each<[ModelSpec, string, RegExp]>([
  [{ model: "anthropic/m" }, "model/no-key", /ANTHROPIC_API_KEY is not set/],
  [
    { model: "google/m" },
    "model/no-key",
    /neither GOOGLE_GENERATIVE_AI_API_KEY nor GEMINI_API_KEY nor GOOGLE_API_KEY is set/,
  ],
  [
    { model: "claude/m" },
    "model/unknown-provider",
    /no provider is called "claude"; .* Did you mean anthropic\/m\?/,
  ],
  [{ model: "OpenAI/gpt-5" }, "model/unknown-provider", /Did you mean openai\/gpt-5\?/],
  [{ model: "antropic/m" }, "model/unknown-provider", /Did you mean anthropic\/m\?/],
  [
    { model: "mistral/large" },
    "model/unknown-provider",
    /the providers are anthropic, openai, google, ollama, lmstudio, openai-compatible\.$/,
  ],
  [{ model: "llama" }, "model/unknown-provider", /"llama" names no provider/],
  [{ model: "" }, "model/unknown-provider", /"" names no provider/],
  [{ model: "anthropic/" }, "model/unknown-provider", /names no model/],
  [{ model: "openai-compatible/m" }, "model/unknown-provider", /needs the baseURL of its server/],
  [
    { model: "m", baseURL: "localhost:8080" },
    "config/invalid-value",
    /baseURL of m is not an http or https URL/,
  ],
  [
    { model: "m", baseURL: "http://u:secret@h" },
    "config/invalid-value",
    /^(?!.*secret).*user name or password/,
  ],
])("%j is refused with %s", (spec, code, message) => {
  expect(() => locateModel(spec, {})).toThrow(
    expect.objectContaining({ code, message: expect.stringMatching(message) as string }),
  );
});

test("a wrong base URL names the variable that it comes from", () => {
  const env = { ANTHROPIC_API_KEY: "k", ANTHROPIC_BASE_URL: "nowhere" };
  expect(() => locateModel({ model: "anthropic/m" }, env)).toThrow(/^ANTHROPIC_BASE_URL of anthropic\/m/);
});
