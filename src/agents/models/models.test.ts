import { describe, expect, it } from "vitest";
import type { ModelSpec } from "../../model/agent.ts";
import type { Environment } from "./model-access.ts";
import { locateModel } from "./resolve-model.ts";
import { askedDelay, defaultRetryPolicy, retryDelay } from "../../process/retry.ts";

const keys: Environment = { ANTHROPIC_API_KEY: "a", OPENAI_API_KEY: "o", GEMINI_API_KEY: "g" };

describe("locateModel", () => {
  it("gives all that is needed to ask a model", () => {
    expect(locateModel({ model: "openai/gpt-5", headers: { "x-team": "t" } }, keys)).toEqual({
      label: "openai/gpt-5",
      provider: "openai",
      model: "gpt-5",
      wire: "openai-responses",
      baseURL: "https://api.openai.com/v1",
      apiKey: "o",
      headers: { "x-team": "t" },
    });
  });

  const compatible = "openai-compatible";
  const baseURL = "http://h/v1";
  it.each<[ModelSpec, string, string, string]>([
    [{ model: "anthropic/claude-sonnet-4-5" }, "anthropic", "anthropic", "claude-sonnet-4-5"],
    [{ model: "claude-opus-4-5" }, "anthropic", "anthropic", "claude-opus-4-5"],
    [{ model: "gpt-4o-mini" }, "openai", "openai-responses", "gpt-4o-mini"],
    [{ model: "o3" }, "openai", "openai-responses", "o3"],
    [{ model: "gemini-2.5-flash" }, "google", "google", "gemini-2.5-flash"],
    [{ model: "openai/gpt-4o", api: "chat" }, "openai", "openai-chat", "gpt-4o"],
    [{ model: "lmstudio/org/model" }, "lmstudio", compatible, "org/model"],
    [{ model: "claude-opus-4-5", baseURL }, compatible, compatible, "claude-opus-4-5"],
    [{ model: "meta-llama/llama-4", baseURL }, compatible, compatible, "meta-llama/llama-4"],
    [{ model: "openai-compatible/m", baseURL }, compatible, compatible, "m"],
    [{ model: "openai-compatible/m", baseURL, api: "responses" }, compatible, "openai-responses", "m"],
    [{ model: "anthropic/m", baseURL: "http://h" }, "anthropic", "anthropic", "m"],
    [{ model: "google/m", baseURL: "http://h" }, "google", "google", "m"],
  ])("%j is a model of %s over %s called %s", (spec, provider, wire, model) => {
    expect(locateModel(spec, keys)).toMatchObject({ provider, wire, model });
  });

  const anthropic = { model: "anthropic/m" };
  it.each<[string, ModelSpec, Environment]>([
    ["https://api.anthropic.com/v1", anthropic, {}],
    ["https://generativelanguage.googleapis.com/v1beta", { model: "google/m" }, {}],
    ["http://127.0.0.1:11434/v1", { model: "ollama/m" }, {}],
    ["http://h/v1", { ...anthropic, baseURL: "http://h" }, {}],
    ["http://h/v1", anthropic, { ANTHROPIC_BASE_URL: "http://h/" }],
    ["http://h/proxy/v1", anthropic, { ANTHROPIC_BASE_URL: "http://h/proxy" }],
    ["http://h/proxy/v1", anthropic, { ANTHROPIC_BASE_URL: "http://h/proxy/v1/" }],
    ["http://spec/v1", { ...anthropic, baseURL: "http://spec/v1" }, { ANTHROPIC_BASE_URL: "http://env" }],
    ["https://api.anthropic.com/v1", anthropic, { ANTHROPIC_BASE_URL: "" }],
    ["http://h/v1", { model: "openai/m" }, { OPENAI_BASE_URL: "http://h" }],
    ["http://h/openai", { model: "openai/m" }, { OPENAI_BASE_URL: "http://h/openai" }],
    ["http://h/v1beta", { model: "google/m" }, { GOOGLE_GEMINI_BASE_URL: "http://h" }],
    ["http://h/v1beta", { model: "google/m" }, { GOOGLE_GEMINI_BASE_URL: "http://h/v1beta" }],
    ["http://h:11434/v1", { model: "ollama/m", baseURL: "http://h:11434" }, {}],
    ["http://h/api", { model: "m", baseURL: "http://h/api/" }, {}],
    ["http://h:11434/v1", { model: "ollama/m" }, { OLLAMA_HOST: "h" }],
    ["http://127.0.0.1:11434/v1", { model: "ollama/m" }, { OLLAMA_HOST: "0.0.0.0" }],
    ["http://127.0.0.1:5000/v1", { model: "ollama/m" }, { OLLAMA_HOST: ":5000" }],
    ["http://127.0.0.1:5000/v1", { model: "ollama/m" }, { OLLAMA_HOST: "[::]:5000" }],
    ["http://h/v1", { model: "ollama/m" }, { OLLAMA_HOST: "http://h" }],
    ["https://h/ollama", { model: "ollama/m" }, { OLLAMA_HOST: "https://h/ollama/" }],
  ])("gives the base URL %s of %j with %j", (expected, spec, env) => {
    expect(locateModel(spec, { ...keys, ...env }).baseURL).toBe(expected);
  });

  const google = { GOOGLE_GENERATIVE_AI_API_KEY: "1", GEMINI_API_KEY: "2", GOOGLE_API_KEY: "3" };
  it.each<[string | undefined, ModelSpec, Environment]>([
    ["spec", { ...anthropic, apiKey: "spec" }, keys],
    ["a", { ...anthropic, apiKey: "" }, keys],
    ["1", { model: "google/m" }, google],
    ["3", { model: "google/m" }, { GOOGLE_GENERATIVE_AI_API_KEY: "", GOOGLE_API_KEY: "3" }],
    [undefined, { model: "m", baseURL: "http://h" }, keys],
    [undefined, { model: "ollama/m" }, {}],
  ])("finds the key %s of %j", (expected, spec, env) => {
    expect(locateModel(spec, env).apiKey).toBe(expected);
  });

  const unknown = "model/unknown-provider";
  const names = "anthropic, openai, google, ollama, lmstudio, openai-compatible, azure, bedrock, vertex";
  const variables = "GOOGLE_GENERATIVE_AI_API_KEY nor GEMINI_API_KEY nor GOOGLE_API_KEY";
  it.each<[ModelSpec, string, RegExp]>([
    [anthropic, "model/no-key", /ANTHROPIC_API_KEY is not set/],
    [{ model: "google/m" }, "model/no-key", new RegExp(`neither ${variables} is set`)],
    [{ model: "claude/m" }, unknown, /no provider is called "claude"; .* Did you mean anthropic\/m\?/],
    [{ model: "OpenAI/gpt-5" }, unknown, /Did you mean openai\/gpt-5\?/],
    [{ model: "azure-openai/m" }, unknown, /Did you mean azure\/m\?/],
    [{ model: "bedrok/m" }, unknown, /Did you mean bedrock\/m\?/],
    [{ model: "vertex/" }, unknown, /names no model/],
    [{ model: "antropic/m" }, unknown, /Did you mean anthropic\/m\?/],
    [{ model: "mistral/large" }, unknown, new RegExp(`the providers are ${names}\\.$`)],
    [{ model: "llama" }, unknown, /"llama" names no provider/],
    [{ model: "" }, unknown, /"" names no provider/],
    [{ model: "anthropic/" }, unknown, /names no model/],
    [{ model: "openai-compatible/m" }, unknown, /needs the baseURL of its server/],
    [
      { model: "m", baseURL: "localhost:80" },
      "config/invalid-value",
      /baseURL of m is not an http or https URL/,
    ],
    [
      { model: "m", baseURL: "http://u:secret@h" },
      "config/invalid-value",
      /^(?!.*secret).*user name or password/,
    ],
  ])("refuses %j with %s", (spec, code, message) => {
    const expected = { code, message: expect.stringMatching(message) as string };
    expect(() => locateModel(spec, {})).toThrow(expect.objectContaining(expected));
  });

  it("names the variable that an invalid base URL comes from", () => {
    const env = { ANTHROPIC_API_KEY: "k", ANTHROPIC_BASE_URL: "nowhere" };
    expect(() => locateModel(anthropic, env)).toThrow(/^ANTHROPIC_BASE_URL of anthropic\/m/);
  });
});

describe("locateModel of a cloud", () => {
  const azure = { AZURE_OPENAI_ENDPOINT: "https://r.openai.azure.com", AZURE_OPENAI_API_KEY: "z" };
  const aws = { AWS_ACCESS_KEY_ID: "AKIA1", AWS_SECRET_ACCESS_KEY: "s1" };
  const credentials = { accessKeyId: "AKIA1", secretAccessKey: "s1" };
  const region = { AWS_REGION: "eu-west-1" };
  const place = { GOOGLE_VERTEX_PROJECT: "p1", GOOGLE_VERTEX_LOCATION: "europe-west4" };
  const inProject = (host: string, location: string): string =>
    `https://${host}/v1beta1/projects/p1/locations/${location}`;
  const express = "https://aiplatform.googleapis.com/v1/publishers/google";

  it.each<[ModelSpec, Environment, Readonly<Record<string, unknown>>]>([
    [
      { model: "azure/my-gpt" },
      azure,
      {
        provider: "azure",
        model: "my-gpt",
        wire: "azure-responses",
        baseURL: "https://r.openai.azure.com/openai/v1",
        apiKey: "z",
      },
    ],
    [{ model: "azure/d", api: "chat" }, azure, { wire: "azure-chat" }],
    [
      { model: "azure/d" },
      { AZURE_OPENAI_ENDPOINT: "https://r.services.ai.azure.com/api/projects/p/", AZURE_API_KEY: "y" },
      { baseURL: "https://r.services.ai.azure.com/api/projects/p/openai/v1", apiKey: "y" },
    ],
    [{ model: "azure/d", baseURL: "http://h/openai" }, azure, { baseURL: "http://h/openai/v1" }],
    [{ model: "azure/d", baseURL: "http://h/v1/", apiKey: "k" }, {}, { baseURL: "http://h/v1", apiKey: "k" }],
    [
      { model: "bedrock/a.b-v1:0" },
      { ...region, AWS_BEARER_TOKEN_BEDROCK: "b", ...aws },
      {
        provider: "bedrock",
        model: "a.b-v1:0",
        wire: "bedrock",
        baseURL: "https://bedrock-runtime.eu-west-1.amazonaws.com",
        apiKey: "b",
        signing: undefined,
      },
    ],
    [
      { model: "bedrock/m" },
      { ...aws, AWS_SESSION_TOKEN: "t", AWS_DEFAULT_REGION: "cn-north-1" },
      {
        baseURL: "https://bedrock-runtime.cn-north-1.amazonaws.com.cn",
        apiKey: undefined,
        signing: { region: "cn-north-1", credentials: { ...credentials, sessionToken: "t" } },
      },
    ],
    [{ model: "bedrock/m", apiKey: "k", baseURL: "http://h" }, {}, { baseURL: "http://h/", apiKey: "k" }],
    [
      { model: "bedrock/m" },
      { ...aws, ...region, AWS_ENDPOINT_URL_BEDROCK_RUNTIME: "http://h:1/x/" },
      { baseURL: "http://h:1/x", signing: { region: "eu-west-1", credentials } },
    ],
    [
      { model: "vertex/gemini-2.5-flash" },
      { GOOGLE_VERTEX_API_KEY: "v" },
      { provider: "vertex", model: "gemini-2.5-flash", wire: "vertex", baseURL: express, apiKey: "v" },
    ],
    [
      { model: "vertex/m" },
      place,
      {
        baseURL: `${inProject("europe-west4-aiplatform.googleapis.com", "europe-west4")}/publishers/google`,
        apiKey: undefined,
      },
    ],
    [
      { model: "vertex/endpoints/12" },
      { GOOGLE_CLOUD_PROJECT: "p1", GOOGLE_CLOUD_LOCATION: "global" },
      { model: "endpoints/12", baseURL: inProject("aiplatform.googleapis.com", "global") },
    ],
    [
      { model: "vertex/m" },
      { ...place, GOOGLE_VERTEX_LOCATION: "eu" },
      { baseURL: `${inProject("aiplatform.eu.rep.googleapis.com", "eu")}/publishers/google` },
    ],
    [{ model: "vertex/m", baseURL: "http://h/p/" }, {}, { baseURL: "http://h/p" }],
  ])("finds %j with %j", (spec, env, expected) => {
    const access: Readonly<Record<string, unknown>> = { ...locateModel(spec, env) };
    expect(Object.fromEntries(Object.keys(expected).map((name) => [name, access[name]]))).toEqual(expected);
  });

  const noKey = "model/no-key";
  const invalid = "config/invalid-value";
  it.each<[ModelSpec, Environment, string, RegExp, RegExp?]>([
    [
      { model: "azure/d" },
      {},
      noKey,
      /no API key for azure\/d: neither AZURE_OPENAI_API_KEY nor AZURE_API_KEY is set/,
    ],
    [
      { model: "azure/d", apiKey: "k" },
      {},
      noKey,
      /no address for azure\/d: AZURE_OPENAI_ENDPOINT is not set/,
      /https:\/\/RESOURCE\./,
    ],
    [
      { model: "azure/d" },
      { ...azure, AZURE_OPENAI_ENDPOINT: "r" },
      invalid,
      /^AZURE_OPENAI_ENDPOINT of azure\/d/,
    ],
    [
      { model: "bedrock/m" },
      { ...region, AWS_ACCESS_KEY_ID: "AKIA1" },
      noKey,
      /neither AWS_BEARER_TOKEN_BEDROCK nor AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY is set/,
      /export-credentials/,
    ],
    [
      { model: "bedrock/m", apiKey: "k" },
      {},
      noKey,
      /no region for bedrock\/m: neither AWS_REGION nor AWS_DEFAULT_REGION is set/,
    ],
    [{ model: "bedrock/m", baseURL: "http://h" }, aws, noKey, /no region/],
    [{ model: "bedrock/m" }, { ...aws, AWS_REGION: "x.evil.example/" }, invalid, /^AWS_REGION is not/],
    [
      { model: "vertex/m" },
      {},
      noKey,
      /no project for vertex\/m: neither GOOGLE_VERTEX_PROJECT nor GOOGLE_CLOUD_PROJECT is set/,
      /GOOGLE_VERTEX_API_KEY/,
    ],
    [
      { model: "vertex/m" },
      { GOOGLE_CLOUD_PROJECT: "p" },
      noKey,
      /no location for vertex\/m/,
      /such as global/,
    ],
    [{ model: "vertex/endpoints/1", apiKey: "k" }, {}, invalid, /cannot be asked with an API key/],
  ])("refuses %j with %j: %s", (spec, env, code, message, hint = /./) => {
    const details = expect.objectContaining({ hint: expect.stringMatching(hint) as string }) as object;
    const expected = { code, message: expect.stringMatching(message) as string };
    const withHint = code === noKey ? { ...expected, details } : expected;
    expect(() => locateModel(spec, env)).toThrow(expect.objectContaining(withHint));
  });
});

describe("waits between attempts", () => {
  it.each<[Record<string, string> | undefined, number | undefined]>([
    [undefined, undefined],
    [{}, undefined],
    [{ "retry-after": "2" }, 2000],
    [{ "retry-after": "0" }, 0],
    [{ "retry-after": "1.5" }, 1500],
    [{ "retry-after-ms": "250", "retry-after": "9" }, 250],
    [{ "retry-after-ms": "soon", "retry-after": "9" }, 9000],
    [{ "retry-after": "Sat, 21 Nov 2026 12:00:30 GMT" }, 30_000],
    [{ "retry-after": "Sat, 21 Nov 2026 11:00:00 GMT" }, 0],
    [{ "retry-after": "tomorrow" }, undefined],
    [{ "retry-after": "-5" }, undefined],
    [{ "retry-after": "" }, undefined],
  ])("%j asks for %s ms", (headers, expected) => {
    expect(askedDelay(headers, () => Date.parse("2026-11-21T12:00:00Z"))).toBe(expected);
  });

  it.each([
    [1, undefined, 1, 500],
    [2, undefined, 1, 1000],
    [4, undefined, 1, 4000],
    [20, undefined, 1, 30_000],
    [3, undefined, 0.25, 500],
    [3, undefined, 0, 0],
    [1, 7000, 0.5, 7000],
    [2, 0, 0.5, 500],
  ])("after attempt %d, asked for %s ms, with the random number %d: %d ms", (attempt, asked, random, ms) => {
    expect(retryDelay(defaultRetryPolicy, attempt, { asked, random: () => random })).toBe(ms);
  });
});
