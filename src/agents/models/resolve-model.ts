import { AsyncLocalStorage } from "node:async_hooks";
import { maxAnswerValues, maxKeptBytes, maxRecordDepth } from "../../base/limits.ts";
import { McpvalsError } from "../../base/error.ts";
import { shortened } from "../../base/visible-text.ts";
import { didYouMean } from "../../base/did-you-mean.ts";
import { asList, asObject, isJsonObject, withoutUndefined, type Json } from "../../base/json.ts";
import type { ModelSpec } from "../../model/agent.ts";
import { JsonMeter, previewJson, repeatedKey } from "../../base/read-json.ts";
import { boundedBodies, withBody } from "../../process/bounded-fetch.ts";
import { LineReader } from "../../process/program-output.ts";
import {
  cloudProviders,
  createAzureModel,
  createBedrockModel,
  createVertexModel,
} from "./cloud-providers.ts";
import {
  type Environment,
  findKey,
  isSet,
  type LanguageModelV4,
  type ModelAccess,
  type ModelWire,
  noneSet,
  readBaseURL,
} from "./model-access.ts";

/** A request to a model, as the AI SDK passes it to a provider. */
export type ModelCallOptions = Parameters<LanguageModelV4["doGenerate"]>[0];

/** The response of a model. */
export type ModelAnswer = Awaited<ReturnType<LanguageModelV4["doGenerate"]>>;

/** A provider, as far as it is known before its package is loaded: URL, key, wire format. */
interface ModelProvider {
  readonly name: string;
  readonly wire: "anthropic" | "openai-responses" | "openai-compatible" | "google";
  /** Absent: the user must give one. */
  readonly baseURL?: string;
  /** Environment variable that replaces `baseURL`. */
  readonly urlVariable?: string;
  /** Makes a URL of its value; absent: it is one. */
  readonly readVariable?: (value: string) => string;
  /** Environment variables that hold a key, the first that is set. Empty: no key is needed. */
  readonly keyVariables: readonly string[];
  /** Names of models that imply this provider if no provider is given. */
  readonly bareNames?: RegExp;
  /** Other common names of the provider. */
  readonly aliases: readonly string[];
  /** Completes the path of a base URL for the AI SDK, where the provider's own tools omit a part. */
  readonly completePath: (path: string) => string;
}

const withV1 = (path: string): string => (path === "" ? "/v1" : path);
const local = { wire: "openai-compatible", keyVariables: [], aliases: [], completePath: withV1 } as const;

const providers: readonly ModelProvider[] = [
  {
    name: "anthropic",
    wire: "anthropic",
    baseURL: "https://api.anthropic.com/v1",
    urlVariable: "ANTHROPIC_BASE_URL",
    keyVariables: ["ANTHROPIC_API_KEY"],
    bareNames: /^claude-/,
    aliases: ["claude"],
    completePath: (path) => (path.endsWith("/v1") ? path : `${path}/v1`),
  },
  {
    name: "openai",
    wire: "openai-responses",
    baseURL: "https://api.openai.com/v1",
    urlVariable: "OPENAI_BASE_URL",
    keyVariables: ["OPENAI_API_KEY"],
    bareNames: /^(?:gpt-|chatgpt-|o\d)/,
    aliases: ["gpt"],
    completePath: withV1,
  },
  {
    name: "google",
    wire: "google",
    baseURL: "https://generativelanguage.googleapis.com/v1beta",
    urlVariable: "GOOGLE_GEMINI_BASE_URL",
    keyVariables: ["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"],
    bareNames: /^gemini-/,
    aliases: ["gemini"],
    completePath: (path) => (/\/v\d\w*$/.test(path) ? path : `${path}/v1beta`),
  },
  {
    ...local,
    name: "ollama",
    baseURL: "http://127.0.0.1:11434/v1",
    urlVariable: "OLLAMA_HOST",
    readVariable: readOllamaHost,
  },
  { ...local, name: "lmstudio", baseURL: "http://127.0.0.1:1234/v1" },
  { ...local, name: "openai-compatible", aliases: ["custom"], completePath: (path) => path },
];

/**
 * Determines the provider of a model id, its URL and its key. An id is `PROVIDER/MODEL`; a bare `claude-…`, `gpt-…`,
 * `o3…` or `gemini-…` implies its provider; with `baseURL`, any other name is a model of an
 * OpenAI-compatible server. The spec overrides the environment.
 *
 * Throws `model/unknown-provider`, `model/no-key`, or `config/invalid-value` for an invalid base URL.
 */
export function locateModel(spec: ModelSpec, env: Environment): ModelAccess {
  const { model: label, api, headers = {} } = spec;
  const slash = label.indexOf("/");
  const prefix = label.slice(0, Math.max(slash, 0));
  const cloud = cloudProviders.find(({ name }) => name === prefix);
  if (cloud !== undefined) {
    const model = label.slice(slash + 1);
    if (model === "") throw noModel(label);
    return { label, provider: prefix, model, ...cloud.locate(spec, model, env), headers };
  }
  const prefixed = providers.find(({ name }) => name === prefix);
  const model = prefixed === undefined ? label : label.slice(slash + 1);
  const provider =
    prefixed ??
    (spec.baseURL === undefined
      ? providers.find(({ bareNames }) => slash === -1 && bareNames?.test(label))
      : providers.at(-1));
  if (provider === undefined) throw unknownProvider(label, prefix);
  if (model === "") throw noModel(label);
  let { wire }: { wire: ModelWire } = provider;
  if (wire === "openai-responses" && api === "chat") wire = "openai-chat";
  else if (wire === "openai-compatible" && api === "responses") wire = "openai-responses";
  const apiKey = keyOf(spec, provider, env);
  const baseURL = findBaseURL(spec, provider, env);
  return withoutUndefined({ label, provider: provider.name, model, wire, baseURL, apiKey, headers });
}

function noModel(id: string): McpvalsError {
  return new McpvalsError("model/unknown-provider", `the model id ${JSON.stringify(id)} names no model`);
}

function unknownProvider(id: string, prefix: string): McpvalsError {
  const all = [...providers, ...cloudProviders];
  const names = all.map(({ name }) => name);
  const aliased = all.find(({ aliases }) => aliases.includes(prefix.toLowerCase()));
  const near = prefix === "" ? undefined : (aliased?.name ?? didYouMean(prefix, names));
  const what =
    prefix === ""
      ? `${JSON.stringify(id)} names no provider`
      : `no provider is called ${JSON.stringify(prefix)}`;
  const guess = near === undefined ? "" : ` Did you mean ${near}/${id.slice(prefix.length + 1)}?`;
  const message = `${what}; the providers are ${names.join(", ")}.${guess}`;
  const hint =
    "Write PROVIDER/MODEL, such as anthropic/claude-sonnet-4-5, or give baseURL for an OpenAI-compatible server.";
  return new McpvalsError("model/unknown-provider", message, { hint });
}

function keyOf(spec: ModelSpec, { keyVariables }: ModelProvider, env: Environment): string | undefined {
  const key = findKey(spec, keyVariables, env);
  if (key !== undefined || keyVariables.length === 0) return key;
  throw new McpvalsError(
    "model/no-key",
    `no API key for ${spec.model}: ${noneSet(keyVariables)}, and no apiKey is given`,
    {
      hint:
        `Set ${keyVariables.join(" or ")}, give apiKey in the file, or choose a model that needs no key ` +
        `(ollama/MODEL, lmstudio/MODEL, any OpenAI-compatible baseURL) or a scripted agent.`,
    },
  );
}

function findBaseURL(spec: ModelSpec, provider: ModelProvider, env: Environment): string {
  const variable = provider.urlVariable ?? "";
  const { readVariable = (value) => value } = provider;
  const fromEnv = isSet(env[variable]) ? readVariable(env[variable]) : undefined;
  const given = spec.baseURL ?? fromEnv ?? provider.baseURL;
  if (given === undefined)
    throw new McpvalsError("model/unknown-provider", `${spec.model} needs the baseURL of its server`, {
      hint: "Give baseURL, such as http://127.0.0.1:8080/v1.",
    });
  const source = `${spec.baseURL === undefined && fromEnv !== undefined ? variable : "baseURL"} of ${spec.model}`;
  return readBaseURL(given, source, provider.completePath);
}

/** As `ollama` reads the variable, whose scheme and port may be left out; a server that listens everywhere is reached here. */
function readOllamaHost(value: string): string {
  const [, scheme = "", host = "", port = "", path = ""] =
    /^(https?:)?(?:\/\/)?([^/:]*|\[[^\]]*\])(?::(\d+))?(\/.*)?$/.exec(value.trim()) ?? [];
  if (host === "" && port === "") return value;
  const defaults = { "": "11434", "http:": "80", "https:": "443" }[scheme] ?? "";
  const reached = ["", "0.0.0.0", "[::]"].includes(host) ? "127.0.0.1" : host;
  return `${scheme === "" ? "http:" : scheme}//${reached}:${port === "" ? defaults : port}${path}`;
}

/**
 * Refuses a model that is invalid in the config itself. Throws `model/unknown-provider` or
 * `config/invalid-value`; a missing key is not an error of the config and is reported when the model is called.
 */
export function checkModel(spec: ModelSpec, env: Environment): void {
  try {
    locateModel(spec, env);
  } catch (error) {
    if (!(error instanceof McpvalsError) || error.kind === "usage") throw error;
  }
}

/**
 * Gives the model that `access` describes, loading only its provider's package. It reads a limited amount of
 * response data in its lifetime, so each trial takes one of its own. Base URL, key and headers are always passed: a
 * provider reads missing ones from the process's own environment.
 *
 * Throws `model/no-package` for an optional package that is not installed, and `config/invalid-value` when the package cannot be loaded because of an empty variable in that environment.
 */
export async function resolveModel(access: ModelAccess): Promise<LanguageModelV4> {
  const key = JSON.stringify(access);
  const made = cachedModels.get(key) ?? createModel(access);
  // The models of a cloud platform keep a state of one conversation.
  if (!cloudProviders.some(({ name }) => name === access.provider)) cachedModels.set(key, made);
  const model = await made;
  const bodies = boundedAnswers();
  const { provider, modelId, supportedUrls } = model;
  return {
    specificationVersion: "v4",
    provider,
    modelId,
    supportedUrls,
    doGenerate: (options) => answerBodies.run(bodies, () => model.doGenerate(options)),
    doStream: (options) => answerBodies.run(bodies, () => model.doStream(options)),
  };
}

/** Making a model takes the provider's package 1 to 3 ms: it builds the schemas of its answers. */
const cachedModels = new Map<string, Promise<LanguageModelV4>>();

/** What limits the bodies of the answers to the model that is asked. */
const answerBodies = new AsyncLocalStorage<ReturnType<typeof boundedBodies>>();

async function createModel(access: ModelAccess): Promise<LanguageModelV4> {
  const { wire, model, baseURL, provider, apiKey, headers } = access;
  const transport = { baseURL, headers: { ...headers }, fetch: modelFetch };
  // A provider without a key would look for one in the process's environment.
  const settings = { ...transport, apiKey: apiKey ?? "none" };
  try {
    switch (wire) {
      case "anthropic":
        return (await import("@ai-sdk/anthropic")).createAnthropic(settings)(model);
      case "openai-responses":
        return (await import("@ai-sdk/openai")).createOpenAI(settings).responses(model);
      case "openai-chat":
        return (await import("@ai-sdk/openai")).createOpenAI(settings).chat(model);
      case "google":
        return (await import("@ai-sdk/google")).createGoogle(settings)(model);
      case "azure-responses":
      case "azure-chat":
        return await createAzureModel(access, transport);
      case "bedrock":
        return await createBedrockModel(access, transport);
      case "vertex":
        return await createVertexModel(access, transport);
      case "openai-compatible": {
        const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
        return createOpenAICompatible({
          ...transport,
          ...withoutUndefined({ apiKey }),
          name: provider,
          // Without it no schema is sent with a request for structured output.
          supportsStructuredOutputs: true,
          // Without it a stream says nothing of tokens.
          includeUsage: true,
        })(model);
      }
    }
  } catch (error) {
    // Some packages create a default provider when they load, which fails if a base URL variable is set but empty.
    if (!(error instanceof Error) || error.name !== "AI_InvalidArgumentError") throw error;
    throw new McpvalsError(
      "config/invalid-value",
      `the package for ${access.label} does not load in this environment: ${error.message}`,
      { cause: error, hint: "Unset ANTHROPIC_BASE_URL or OPENAI_BASE_URL where it is set to an empty text." },
    );
  }
}

/** What is shown of a body. */
export function excerpt(text: string): string {
  return shortened(oneLine(text), 300);
}

export function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}

/** A response whose body is not used; the message is the reason. */
export class UnusableAnswer extends Error {}

/**
 * `fetch` for the SDKs of providers. The SDKs accept duplicate keys, use only the first of several choices, and ignore an
 * error beside a choice; here, reading such a body, or such an event of a stream, fails with {@link UnusableAnswer}. Redirects are not followed: the key in
 * the headers is for the base URL alone.
 */
const modelFetch: typeof fetch = async (input, init) => {
  const bounded = answerBodies.getStore() ?? boundedAnswers();
  const response = await fetch(input, { ...init, redirect: "manual" });
  const { body, ok, headers } = response;
  if (body === null) return response;
  if (ok && headers.get("content-type")?.startsWith("text/event-stream") === true)
    return withBody(response, checkedEvents(body));
  return withBody(response, ok ? checked(bounded(body)) : bounded(body));
};

function boundedAnswers(): ReturnType<typeof boundedBodies> {
  return boundedBodies({
    bytes: maxKeptBytes,
    values: maxAnswerValues,
    onTooMuch: (more) => new UnusableAnswer(`with those before it, it has more than ${more}`),
  });
}

/** Checks each event of a stream; providers write the data of one in one line. What is kept of them is limited where it is. */
async function* checkedEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  let problem: string | undefined;
  const course = new StreamCourse();
  const lines = new LineReader({
    limit: maxKeptBytes,
    onLine: (line) => {
      if (line.toString("latin1", 0, 5) !== "data:") return;
      const data = line.subarray(5);
      problem ??= problemOfEvent(data) ?? course.problemWith(data);
    },
    onTooLong: () => (problem ??= `one event has more than ${maxKeptBytes / 1024 ** 2} MiB`),
  });
  for await (const chunk of body) {
    lines.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    if (problem !== undefined) throw new UnusableAnswer(problem);
    yield chunk;
  }
}

/**
 * What the packages join, overwrite or leave out without a word: other answers, a second one, words after the end, a second end, and
 * an end, or a finished part, that contradicts what came before.
 */
class StreamCourse {
  #end: string | undefined;
  #begun = false;
  readonly #parts = new StreamedParts();

  problemWith(data: Buffer): string | undefined {
    let event: Fields;
    try {
      event = asObject(JSON.parse(data.toString("utf8")));
    } catch {
      return undefined;
    }
    const { type } = event;
    const isStart = type === "message_start" || type === "response.created";
    if (isStart && this.#begun) return "it has more than one answer, and one was asked for";
    this.#begun ||= isStart;
    const [choice = {}] = asList(event["choices"]).map(asObject);
    const index = choice["index"] ?? 0;
    if (index !== 0) return "it has more than one answer, and one was asked for";
    const end = endIn(event, choice);
    if (this.#end !== undefined) {
      if (end !== undefined && end !== this.#end) return `it ends twice: ${this.#end}, ${end}`;
      if (saysSomething(event, choice)) return "it goes on after its end";
    }
    this.#end ??= end;
    return this.#parts.problemWith(event);
  }
}

/** The parts of an answer that come in pieces: blocks of Anthropic's Messages, texts and calls of OpenAI's Responses. */
class StreamedParts {
  /** Blocks that have begun and not ended, by their index. */
  readonly #open = new Set<unknown>();
  /** The pieces so far, by the place of their part. */
  readonly #pieces = new Map<string, string>();

  problemWith(event: Fields): string | undefined {
    const { type, index, delta, item, part, response } = event;
    switch (type) {
      case "content_block_start":
        if (this.#open.has(index)) return "one of its parts begins twice";
        this.#open.add(index);
        return undefined;
      case "content_block_delta":
        return this.#open.has(index) ? undefined : "it has a piece of a part that never began";
      case "content_block_stop":
        return this.#open.delete(index) ? undefined : "a part ends in it that never began";
      case "message_stop":
        return this.#open.size > 0 ? "it ends before one of its parts does" : undefined;
      case "response.output_text.delta":
      case "response.function_call_arguments.delta": {
        const place = placeOf(event);
        if (typeof delta === "string") this.#pieces.set(place, (this.#pieces.get(place) ?? "") + delta);
        return undefined;
      }
      case "response.output_text.done":
      case "response.function_call_arguments.done":
        return this.#problemWithWhole(event, event);
      case "response.content_part.done":
        return this.#problemWithWhole(event, asObject(part));
      case "response.output_item.done": {
        const wholes = asList(asObject(item)["content"]).map((whole, at) =>
          this.#problemWithWhole({ ...event, content_index: at }, asObject(whole)),
        );
        return [this.#problemWithWhole(event, asObject(item)), ...wholes].find(
          (problem) => problem !== undefined,
        );
      }
      case "response.completed":
      case "response.incomplete":
      case "response.failed": {
        const { status } = asObject(response);
        return typeof status === "string" && type !== `response.${status}`
          ? `it ends as ${type}, with the status ${previewJson(status)}`
          : undefined;
      }
      default:
        return undefined;
    }
  }

  /** The packages take words from the pieces, and the arguments of calls from the finished part. */
  #problemWithWhole(event: Fields, { text, arguments: args }: Fields): string | undefined {
    const pieces = this.#pieces.get(placeOf(event));
    const isSame =
      typeof text === "string" ? text === (pieces ?? "") : pieces === undefined || args === pieces;
    return isSame || typeof (text ?? args) !== "string"
      ? undefined
      : "the pieces of one of its parts are not what the finished part has";
  }
}

function placeOf({ output_index: item, content_index: content }: Fields): string {
  return JSON.stringify([item, content]);
}

/** An object from the wire. */
type Fields = Readonly<Record<string, unknown>>;

/** Why the answer ended, in the event that says so. */
function endIn(event: Fields, choice: Fields): string | undefined {
  const { type } = event;
  const reason =
    choice["finish_reason"] ??
    (type === "message_delta" ? asObject(event["delta"])["stop_reason"] : undefined) ??
    asObject(asList(event["candidates"])[0])["finishReason"];
  if (typeof reason === "string") return reason;
  return typeof type === "string" && /^response\.(?:completed|incomplete|failed)$/.test(type)
    ? type
    : undefined;
}

/** Whether an event has words or calls. Gemini's have some beside the end, and older ones an end in each. */
function saysSomething({ type }: Fields, choice: Fields): boolean {
  const { content, tool_calls: calls, refusal } = asObject(choice["delta"]);
  if ([content, refusal].some((text) => typeof text === "string" && text !== "") || asList(calls).length > 0)
    return true;
  return typeof type === "string" && /^(?:content_block_(?:start|delta)|response\..*delta)$/.test(type);
}

function problemOfEvent(data: Buffer): string | undefined {
  const { values, deepest } = new JsonMeter().push(data);
  if (values > maxAnswerValues) return `one event has more than ${maxAnswerValues} values`;
  if (deepest > maxRecordDepth) return `one event has more than ${maxRecordDepth} levels`;
  return problemOf(data.toString("utf8"), { isEvent: true });
}

async function* checked(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) {
    chunks.push(chunk);
    yield chunk;
  }
  const problem = problemOf(Buffer.concat(chunks).toString("utf8"));
  if (problem !== undefined) throw new UnusableAnswer(problem);
}

function problemOf(text: string, { isEvent = false } = {}): string | undefined {
  let body: Json;
  try {
    body = JSON.parse(text) as Json;
  } catch {
    // The last event of a stream may be none.
    if (isEvent) return undefined;
    return text.trim() === "" ? "it is empty" : `it is not JSON: ${excerpt(text)}`;
  }
  if (!isJsonObject(body)) return undefined;
  const key = repeatedKey(text);
  if (key !== undefined) return `it has the key ${previewJson(key)} twice`;
  // OpenAI's Responses API has `error: null` in every successful response.
  const { error = null, choices, candidates } = body;
  // An event that is nothing but an error is one that the SDK reports.
  const isOnlyError = isEvent && (choices ?? candidates) === undefined;
  if (error !== null && !isOnlyError) return `it has an error: ${previewJson(error)}`;
  const several = [choices, candidates].find((list) => Array.isArray(list) && list.length > 1);
  return several === undefined ? undefined : "it has more than one answer, and one was asked for";
}
