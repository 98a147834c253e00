import type { wrapLanguageModel } from "ai";
import { McpvalsError } from "../core/errors/error.ts";
import { didYouMean } from "../core/formats/did-you-mean.ts";
import type { ModelSpec } from "../core/formats/model.ts";

/** Everything that is needed to ask a model, decided without loading any SDK. */
export interface ModelAccess {
  /** The model as the user wrote it; what messages and events call it. */
  readonly label: string;
  readonly provider: string;
  /** The model's name as its provider knows it. */
  readonly model: string;
  readonly wire: ModelWire;
  readonly baseURL: string;
  readonly apiKey?: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Decides which provider a model id means, where it is and which key opens it. An id is `PROVIDER/MODEL`; a bare
 * `claude-…`, `gpt-…`, `o3…` or `gemini-…` means its provider; with `baseURL`, any other name is a model of an
 * OpenAI-compatible server. The spec overrides the environment.
 *
 * Throws `model/unknown-provider`, `model/no-key`, or `config/invalid-value` for a base URL that is none.
 */
export function locateModel(spec: ModelSpec, env: Environment): ModelAccess {
  const { provider, model } = splitModelId(spec);
  const apiKey = findKey(spec, provider, env);
  return {
    label: spec.model,
    provider: provider.name,
    model,
    wire: wireOf(provider, spec.api),
    baseURL: findBaseURL(spec, provider, env),
    ...(apiKey === undefined ? {} : { apiKey }),
    headers: spec.headers ?? {},
  };
}

function splitModelId(spec: ModelSpec): { provider: ModelProvider; model: string } {
  const slash = spec.model.indexOf("/");
  const prefix = spec.model.slice(0, Math.max(slash, 0));
  const prefixed = providerNamed(prefix);
  const model = prefixed === undefined ? spec.model : spec.model.slice(slash + 1);
  const provider = prefixed ?? impliedProvider(spec, slash !== -1);
  if (provider === undefined) throw unknownProvider(spec.model, prefix);
  if (model === "") {
    throw new McpvalsError(
      "model/unknown-provider",
      `the model id ${JSON.stringify(spec.model)} names no model`,
    );
  }
  return { provider, model };
}

function impliedProvider(spec: ModelSpec, hasPrefix: boolean): ModelProvider | undefined {
  if (spec.baseURL !== undefined) return providerNamed("openai-compatible");
  return hasPrefix ? undefined : modelProviders.find((provider) => provider.bareNames?.test(spec.model));
}

function providerNamed(name: string): ModelProvider | undefined {
  return modelProviders.find((provider) => provider.name === name);
}

function unknownProvider(id: string, prefix: string): McpvalsError {
  const names = modelProviders.map((provider) => provider.name);
  const near = prefix === "" ? undefined : (aliases.get(prefix.toLowerCase()) ?? didYouMean(prefix, names));
  const what =
    prefix === ""
      ? `${JSON.stringify(id)} names no provider`
      : `no provider is called ${JSON.stringify(prefix)}`;
  const guess = near === undefined ? "" : ` Did you mean ${near}/${id.slice(prefix.length + 1)}?`;
  return new McpvalsError(
    "model/unknown-provider",
    `${what}; the providers are ${names.join(", ")}.${guess}`,
    {
      hint: `Write PROVIDER/MODEL, such as anthropic/claude-sonnet-4-5, or give baseURL for an OpenAI-compatible server.`,
    },
  );
}

/** Other names under which people know the providers. */
const aliases: ReadonlyMap<string, string> = new Map([
  ["claude", "anthropic"],
  ["gpt", "openai"],
  ["gemini", "google"],
  ["custom", "openai-compatible"],
]);

function wireOf(provider: ModelProvider, api: ModelSpec["api"]): ModelWire {
  switch (provider.wire) {
    case "openai-responses":
    case "openai-chat":
      return api === "chat" ? "openai-chat" : "openai-responses";
    case "openai-compatible":
      return api === "responses" ? "openai-responses" : "openai-compatible";
    case "anthropic":
    case "google":
      return provider.wire;
  }
}

function findKey(spec: ModelSpec, provider: ModelProvider, env: Environment): string | undefined {
  if (isSet(spec.apiKey)) return spec.apiKey;
  const { keyVariables } = provider;
  const name = keyVariables.find((variable) => isSet(env[variable]));
  if (name !== undefined) return env[name];
  if (keyVariables.length === 0) return undefined;
  const [first, ...others] = keyVariables;
  const unset =
    others.length === 0 ? `${first} is not set` : `neither ${first} nor ${others.join(" nor ")} is set`;
  throw new McpvalsError("model/no-key", `no API key for ${spec.model}: ${unset}, and no apiKey is given`, {
    hint:
      `Set ${keyVariables.join(" or ")}, give apiKey in the file, or choose a model that needs no key ` +
      `(ollama/MODEL, lmstudio/MODEL, any OpenAI-compatible baseURL) or a scripted agent.`,
  });
}

function findBaseURL(spec: ModelSpec, provider: ModelProvider, env: Environment): string {
  const variable = provider.urlVariables.find((name) => isSet(env[name]));
  const given = spec.baseURL ?? (variable === undefined ? undefined : env[variable]) ?? provider.baseURL;
  const source = spec.baseURL === undefined && variable !== undefined ? variable : "baseURL";
  if (given === undefined) {
    throw new McpvalsError("model/unknown-provider", `${spec.model} needs the baseURL of its server`, {
      hint: "Give baseURL, such as http://127.0.0.1:8080/v1.",
    });
  }
  const url = parseURL(given);
  if (url === undefined) {
    throw new McpvalsError("config/invalid-value", `${source} of ${spec.model} is not an http or https URL`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new McpvalsError(
      "config/invalid-value",
      `${source} of ${spec.model} has a user name or password in it`,
      {
        hint: "Give credentials as apiKey or in headers.",
      },
    );
  }
  url.pathname = provider.completePath(url.pathname.replace(/\/+$/, ""));
  return url.href;
}

function parseURL(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url?.protocol === "http:" || url?.protocol === "https:" ? url : undefined;
}

function isSet(value: string | undefined): value is string {
  return value !== undefined && value.trim() !== "";
}

/** The wire format that a provider speaks. */
export type ModelWire = "anthropic" | "openai-responses" | "openai-chat" | "openai-compatible" | "google";

/** What distinguishes providers before their package is loaded: address, key, wire format. */
export interface ModelProvider {
  readonly name: string;
  readonly wire: ModelWire;
  /** Absent: required from the user. */
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

const modelProviders: readonly ModelProvider[] = [
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

/**
 * Refuses a model that is wrong in the config itself. Throws `model/unknown-provider` or
 * `config/invalid-value`; a missing key is no mistake of the config and shows when the model is asked.
 */
export function checkModel(spec: ModelSpec, env: Environment): void {
  try {
    locateModel(spec, env);
  } catch (error) {
    if (error instanceof McpvalsError && error.kind !== "usage") return;
    throw error;
  }
}

/** A model of the AI SDK's providers (`LanguageModelV4`). */
export type LanguageModelV4 = ReturnType<typeof wrapLanguageModel>;

/** What a model is asked, as the AI SDK hands it to a provider. */
export type ModelCallOptions = Parameters<LanguageModelV4["doGenerate"]>[0];

/** What a model answered. */
export type ModelAnswer = Awaited<ReturnType<LanguageModelV4["doGenerate"]>>;

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;
