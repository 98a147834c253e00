import type { wrapLanguageModel } from "ai";
import { McpvalsError } from "../../base/error.ts";
import type { ModelSpec } from "../../model/agent.ts";

/** A model of the AI SDK's providers (`LanguageModelV4`). */
export type LanguageModelV4 = ReturnType<typeof wrapLanguageModel>;

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Everything that is needed to call a model; computed without loading any SDK. */
export interface ModelAccess {
  /** The model as the user wrote it; messages and events use it. */
  readonly label: string;
  readonly provider: string;
  /** The model's name as its provider knows it. */
  readonly model: string;
  readonly wire: ModelWire;
  readonly baseURL: string;
  readonly apiKey?: string;
  /** What requests are signed with in place of a key, and for which region. */
  readonly signing?: { readonly region: string; readonly credentials: AwsCredentials };
  readonly headers: Readonly<Record<string, string>>;
}

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

/** What is sent and how: which package makes the model, in which of its forms. */
export type ModelWire =
  | "anthropic"
  | "openai-responses"
  | "openai-chat"
  | "openai-compatible"
  | "google"
  | "azure-responses"
  | "azure-chat"
  | "bedrock"
  | "vertex";

/** What every package of a provider is given: it must not look for an address in the process's environment. */
export interface ModelTransport {
  readonly baseURL: string;
  readonly headers: Record<string, string>;
  readonly fetch: typeof fetch;
}

export function isSet(value: string | undefined): value is string {
  return value !== undefined && value.trim() !== "";
}

/** The first of the variables that is set, with its value. */
export function firstSet(
  names: readonly string[],
  env: Environment,
): { readonly name: string; readonly value: string } | undefined {
  for (const name of names) {
    const value = env[name];
    if (isSet(value)) return { name, value };
  }
  return undefined;
}

/** The key of the spec, or else of the environment. */
export function findKey(
  { apiKey }: ModelSpec,
  variables: readonly string[],
  env: Environment,
): string | undefined {
  return isSet(apiKey) ? apiKey : firstSet(variables, env)?.value;
}

/**
 * The address of an API, with its path completed. Throws `config/invalid-value`, with `source` as the name of what is
 * wrong, when it is no http or https URL or has credentials in it.
 */
export function readBaseURL(
  given: string,
  source: string,
  completePath: (path: string) => string = (path) => path,
): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new McpvalsError("config/invalid-value", `${source} is not an http or https URL`);
  if (url.username !== "" || url.password !== "")
    throw new McpvalsError("config/invalid-value", `${source} has a user name or password in it`, {
      hint: "Give credentials as apiKey or in headers.",
    });
  url.pathname = completePath(url.pathname.replace(/\/+$/, ""));
  return url.href;
}

/** The names of variables of which none is set, as the beginning of a sentence about them. */
export function noneSet(variables: readonly string[]): string {
  return variables.length === 1 ? `${variables[0]} is not set` : `neither ${variables.join(" nor ")} is set`;
}
