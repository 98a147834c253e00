import { randomBytes } from "node:crypto";
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as requestHttp,
  type Server,
  type ServerResponse,
} from "node:http";
import { request as requestHttps } from "node:https";
import { PassThrough, pipeline, type Transform } from "node:stream";
import { createBrotliDecompress, createUnzip } from "node:zlib";
import type { AgentPreset, ModelProxySpec } from "../core/formats/model.ts";
import { objectOf, textOf, type WireObject } from "../core/formats/presets/preset.ts";
import { presets } from "../core/formats/presets/presets.ts";
import { jsonExcess } from "../core/formats/read-json.ts";
import type { Emit, Usage } from "../core/trace/events.ts";
import { ByteStore, LineReader } from "../process/program-output.ts";

export interface ModelProxyOptions {
  /** Address of the provider's API. */
  readonly target: string;
  /** Called for each request to the model that was answered well. */
  readonly onUsage: OnUsage;
}

/** `model`: who answered, where the answer tells. */
type OnUsage = (usage: Usage, model?: string) => void;

/** A reverse proxy on loopback in front of a model's API. */
export interface ModelProxy {
  /** Where a program is to reach the API; the path holds a secret. */
  readonly url: string;
  /** Ends every exchange and stops listening. Never throws. */
  close(): Promise<void>;
}

/**
 * Starts a proxy that passes requests and answers on as they are, and reads the tokens out of the answers. It keeps neither
 * keys nor bodies.
 */
export async function startModelProxy({ target, onUsage }: ModelProxyOptions): Promise<ModelProxy> {
  const secret = randomBytes(16).toString("hex");
  const base = new URL(target);
  const server = createServer((incoming, outgoing) => {
    const rest = pathAfter(incoming.url ?? "", `/${secret}`);
    if (rest === undefined) outgoing.writeHead(404).end();
    else passOn({ incoming, outgoing, url: joined(base, rest), onUsage });
  });
  const port = await listen(server);
  return { url: `http://127.0.0.1:${port}/${secret}`, close: () => close(server) };
}

/** What is known of a program that may have its model reached through a proxy. */
interface ProxiedProgram {
  readonly env: Readonly<Record<string, string>>;
  readonly preset?: AgentPreset;
  readonly modelProxy?: ModelProxySpec;
}

/** Runs what starts a program, with the environment that leads it to a proxy when it has one; the proxy ends with it. */
export async function withModelProxy(
  program: ProxiedProgram,
  { emit }: { readonly emit: Emit },
  run: (env: Readonly<Record<string, string>>) => Promise<void>,
): Promise<void> {
  const { env, modelProxy } = program;
  if (modelProxy === undefined) {
    await run(env);
    return;
  }
  const onUsage: OnUsage = (usage, model) => {
    emit({ type: "agent.usage", source: "proxy", usage });
    if (model !== undefined) emit({ type: "agent.told", model });
  };
  const proxy = await startModelProxy({ target: targetOf(program, modelProxy), onUsage });
  try {
    await run({ ...env, [modelProxy.variable]: proxy.url });
  } finally {
    await proxy.close();
  }
}

/** Where no address was chosen, the usual one gives way to one that the program's variable already leads to. */
function targetOf({ env, preset }: ProxiedProgram, { target, variable }: ModelProxySpec): string {
  const usual = preset === undefined ? undefined : presets[preset].modelApi;
  const own = env[variable] ?? "";
  return usual?.target === target && own !== "" ? own : target;
}

interface Exchange {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly url: URL;
  readonly onUsage: OnUsage;
}

function passOn({ incoming, outgoing, url, onUsage }: Exchange): void {
  const send = url.protocol === "https:" ? requestHttps : requestHttp;
  const options = { method: incoming.method, headers: { ...headersOf(incoming), host: url.host } };
  const upstream = send(url, options, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, headersOf(answer));
    // What tells streams apart from stuck ones arrives at once this way.
    outgoing.flushHeaders();
    const isModel = incoming.method === "POST" && modelPath.test(url.pathname);
    const isGood = (answer.statusCode ?? 0) >= 200 && (answer.statusCode ?? 0) < 300;
    if (isModel && isGood) readUsage(answer, onUsage);
    // An end that is too early is the agent's to see: its side is cut as ours was.
    pipeline(answer, outgoing, () => undefined);
  });
  upstream.on("error", (error) => refuse(outgoing, error));
  outgoing.on("close", () => upstream.destroy());
  pipeline(incoming, upstream, () => undefined);
}

/** Requests that are answered by a model, whatever stands before. */
const modelPath = /(?:\/messages|\/responses|\/chat\/completions|:generateContent|:streamGenerateContent)$/;

/** Unpacked at once, in bytes: a queue of tiny pieces takes a hundred times their size. */
const blockLength = 64 * 1024;
/** Unpacked of one answer to read the tokens in it, in bytes. */
const mostRead = 64 * 1024 * 1024;
/** Of an answer that comes faster than it can be unpacked, the bytes that may wait. */
const mostWaiting = 8 * 1024 * 1024;

/** The agent gets its answer as it comes, whatever becomes of reading along. */
function readUsage(answer: IncomingMessage, onUsage: OnUsage): void {
  const reader = createUsageReader(answer.headers["content-type"]);
  const plain = decoded(answer.headers["content-encoding"]);
  const waiting = new ByteStore();
  let read = 0;
  const tell = ({ model, ...tokens }: ToldTokens): void =>
    onUsage({ inputTokens: 0, outputTokens: 0, ...tokens, requests: 1 }, model);
  const giveUp = (): void => {
    plain.destroy();
    tell(reader.finish());
  };
  plain.on("data", (chunk: Buffer) => {
    read += chunk.length;
    if (read <= mostRead) reader.push(chunk);
    else if (!plain.destroyed) giveUp();
  });
  plain.on("end", () => {
    const told = reader.finish();
    // Of an answer that was cut off nothing may be known, not even that it was paid for.
    if (answer.complete || told.inputTokens !== undefined) tell(told);
  });
  // What cannot be unpacked tells nothing; the agent gets it as it is.
  plain.on("error", () => undefined);
  answer.on("data", (chunk: Buffer) => {
    if (plain.destroyed) return;
    waiting.push(chunk);
    if (plain.writableLength > mostWaiting) giveUp();
    else if (waiting.length >= blockLength) plain.write(waiting.take());
  });
  answer.on("close", () => {
    if (!plain.destroyed) plain.end(waiting.take());
  });
}

function decoded(encoding: string | undefined): Transform {
  switch (encoding) {
    case "gzip":
    case "x-gzip":
    case "deflate":
      return createUnzip();
    case "br":
      return createBrotliDecompress();
    default:
      return new PassThrough();
  }
}

function refuse(outgoing: ServerResponse, error: Error): void {
  if (outgoing.headersSent) {
    outgoing.destroy();
    return;
  }
  outgoing.writeHead(502, { "content-type": "application/json" });
  const message = `mcpvals could not reach the model's API: ${error.message}`;
  outgoing.end(JSON.stringify({ error: { type: "api_error", message } }));
}

/** Headers that are between two neighbours only. */
const ownHeaders = new Set(["connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer"]);

function headersOf({ headersDistinct }: IncomingMessage): OutgoingHttpHeaders {
  const headers: Record<string, string | string[]> = {};
  for (const [name, values = []] of Object.entries(headersDistinct)) {
    const [first = ""] = values;
    if (!ownHeaders.has(name)) headers[name] = values.length === 1 ? first : values;
  }
  return headers;
}

function pathAfter(path: string, prefix: string): string | undefined {
  if (!path.startsWith(prefix)) return undefined;
  const rest = path.slice(prefix.length);
  return rest === "" || /^[/?]/.test(rest) ? rest : undefined;
}

function joined(base: URL, rest: string): URL {
  const [path = "", query] = rest.split(/\?(.*)/s);
  const url = new URL(base);
  url.pathname = `${base.pathname.replace(/\/$/, "")}${path}`;
  if (query !== undefined) url.search = query;
  return url;
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

/** Longest body, or line of a stream, that is looked at, in bytes. */
const limit = 16 * 1024 * 1024;
/** Lists and objects in each other that an answer may have. */
const levels = 400;

/** Reads the tokens out of the body of an answer while it passes; keeps nothing else of it. */
export interface UsageReader {
  push(chunk: Buffer): void;
  /** What was told, once the body has ended. */
  finish(): ToldTokens;
}

/** Makes the reader for a type of content: a stream of events, or JSON. */
export function createUsageReader(contentType: string | undefined): UsageReader {
  return /^text\/event-stream\b/i.test(contentType ?? "") ? eventReader() : jsonReader();
}

function eventReader(): UsageReader {
  let told: ToldTokens = {};
  const onLine = (line: Buffer): void => {
    if (line.toString("latin1", 0, 5) !== "data:") return;
    if (line.includes("usage")) told = { ...told, ...usageIn(parse(line.subarray(5))) };
  };
  const lines = new LineReader({ limit, onLine, onTooLong: () => undefined });
  return {
    push: (chunk) => lines.push(chunk),
    finish: () => {
      lines.end();
      return told;
    },
  };
}

function jsonReader(): UsageReader {
  const whole = new ByteStore();
  let isTooLong = false;
  return {
    push: (chunk) => {
      isTooLong ||= whole.length + chunk.length > limit;
      if (isTooLong) whole.clear();
      else whole.push(chunk);
    },
    finish: () => {
      const value = parse(whole.take());
      // Gemini streams an array unless it is asked for events.
      const pieces: readonly unknown[] = Array.isArray(value) ? value : [value];
      return pieces.reduce<ToldTokens>((told, piece) => ({ ...told, ...usageIn(piece) }), {});
    },
  };
}

function parse(json: Buffer): unknown {
  if (jsonExcess(json, { levels }) !== undefined) return undefined;
  try {
    return JSON.parse(json.toString("utf8")) as unknown;
  } catch {
    return undefined; // not JSON, so it tells nothing
  }
}

/** Tokens and the model as far as one piece of an answer tells of them. */
export type ToldTokens = Partial<Omit<Usage, "requests">> & { readonly model?: string };

/**
 * Reads the tokens out of an answer of a model's API, or out of one event of a stream: Anthropic Messages, OpenAI Responses
 * and Chat Completions, Gemini. Later pieces of a stream replace what earlier ones told. Input is all of it, what came from
 * a cache included.
 */
function usageIn(piece: unknown): ToldTokens {
  const value = objectOf(piece);
  const { message, response } = value;
  const model = [
    value["model"],
    value["modelVersion"],
    objectOf(message)["model"],
    objectOf(response)["model"],
  ]
    .map(textOf)
    .find((name) => name !== undefined);
  return { ...tokensIn(value), ...(model === undefined ? {} : { model }) };
}

function tokensIn(value: WireObject): ToldTokens {
  if ("usageMetadata" in value) return geminiUsage(objectOf(value["usageMetadata"]));
  const holder = [value, objectOf(value["message"]), objectOf(value["response"])].find(
    (each) => typeof each["usage"] === "object" && each["usage"] !== null,
  );
  if (holder === undefined) return {};
  const usage = objectOf(holder["usage"]);
  if ("prompt_tokens" in usage) return chatUsage(usage);
  return "input_tokens_details" in usage || holder === objectOf(value["response"])
    ? responsesUsage(usage)
    : anthropicUsage(usage);
}

function geminiUsage(usage: WireObject): ToldTokens {
  return told({
    inputTokens: sum(usage["promptTokenCount"], usage["toolUsePromptTokenCount"]),
    outputTokens: sum(usage["candidatesTokenCount"], usage["thoughtsTokenCount"]),
    cacheReadTokens: sum(usage["cachedContentTokenCount"]),
  });
}

function chatUsage(usage: WireObject): ToldTokens {
  return told({
    inputTokens: sum(usage["prompt_tokens"]),
    outputTokens: sum(usage["completion_tokens"]),
    cacheReadTokens: sum(objectOf(usage["prompt_tokens_details"])["cached_tokens"]),
  });
}

function responsesUsage(usage: WireObject): ToldTokens {
  return told({
    inputTokens: sum(usage["input_tokens"]),
    outputTokens: sum(usage["output_tokens"]),
    cacheReadTokens: sum(objectOf(usage["input_tokens_details"])["cached_tokens"]),
  });
}

/** Its `input_tokens` are those that no cache had. */
function anthropicUsage(usage: WireObject): ToldTokens {
  const read = usage["cache_read_input_tokens"];
  const written = usage["cache_creation_input_tokens"];
  const fresh = usage["input_tokens"];
  return told({
    inputTokens: typeof fresh === "number" ? sum(fresh, read, written) : undefined,
    outputTokens: sum(usage["output_tokens"]),
    cacheReadTokens: sum(read),
    cacheWriteTokens: sum(written),
  });
}

/** Undefined when there is no number among them. */
function sum(...values: readonly unknown[]): number | undefined {
  const numbers = values.filter((value): value is number => typeof value === "number" && value >= 0);
  return numbers.length === 0 ? undefined : numbers.reduce((total, each) => total + each, 0);
}

function told(counts: Readonly<Record<string, number | undefined>>): ToldTokens {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== undefined));
}
