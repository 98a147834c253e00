import { maxOpenBytes } from "../base/limits.ts";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as requestHttp,
  type ServerResponse,
} from "node:http";
import { request as requestHttps } from "node:https";
import { PassThrough, pipeline, type Transform } from "node:stream";
import { createBrotliDecompress, createUnzip } from "node:zlib";
import { asObject, withoutUndefined } from "../base/json.ts";
import type { AcpAgentSpec } from "../model/agent.ts";
import { textOf, type WireObject } from "./programs/preset.ts";
import { jsonExcess } from "../base/read-json.ts";
import type { Emit } from "../model/event.ts";
import { ByteStore, LineReader } from "../process/program-output.ts";
import { presetNamed } from "./programs/presets.ts";
import type { Usage } from "../model/grade.ts";

/** Called for each request to the model that was answered well; `model`: who answered, where the answer says so. */
type OnUsage = (usage: Usage, model?: string) => void;

/** A reverse proxy on loopback in front of a model's API. */
export interface ModelProxy {
  /** Where a program reaches the API; the path holds a secret. */
  readonly url: string;
  /** Ends every exchange and stops listening. Never throws. */
  close(): Promise<void>;
}

/**
 * Starts a proxy in front of the API at `target`. It passes requests and answers on unchanged, and reads the tokens in the
 * answers; it keeps neither keys nor bodies.
 */
export async function startModelProxy({
  target,
  onUsage,
}: {
  readonly target: string;
  readonly onUsage: OnUsage;
}): Promise<ModelProxy> {
  const prefix = `/${randomBytes(16).toString("hex")}`;
  const server = createServer((incoming, outgoing) => {
    const { url = "" } = incoming;
    const [, path = "", query] = /^([^?]*)(?:\?(.*))?$/s.exec(url.slice(prefix.length)) ?? [];
    if (!url.startsWith(prefix) || !(path === "" || path.startsWith("/")))
      return void outgoing.writeHead(404).end();
    const address = new URL(target);
    address.pathname = `${address.pathname.replace(/\/$/, "")}${path}`;
    if (query !== undefined) address.search = query;
    passOn(incoming, outgoing, address, onUsage);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}${prefix}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Runs `run` with the environment that leads a program to a proxy, if it is to have one; the proxy ends afterwards. */
export async function withModelProxy(
  { env, preset, modelProxy }: Pick<AcpAgentSpec, "env" | "preset" | "modelProxy">,
  { emit }: { readonly emit: Emit },
  run: (env: Readonly<Record<string, string>>) => Promise<void>,
): Promise<void> {
  if (modelProxy === undefined) return run(env);
  const { target, variable } = modelProxy;
  // The usual address is replaced by the one in the program's variable; an address that the user chose is not.
  const isUsual = presetNamed(preset)?.modelApi?.target === target;
  const own = env[variable] ?? "";
  const proxy = await startModelProxy({
    target: isUsual && own !== "" ? own : target,
    onUsage: (usage, model) => {
      emit({ type: "agent.usage", source: "proxy", usage, ...withoutUndefined({ model }) });
      if (model !== undefined) emit({ type: "agent.reported", model });
    },
  });
  try {
    await run({ ...env, [variable]: proxy.url });
  } finally {
    await proxy.close();
  }
}

function passOn(incoming: IncomingMessage, outgoing: ServerResponse, url: URL, onUsage: OnUsage): void {
  const send = url.protocol === "https:" ? requestHttps : requestHttp;
  const options = { method: incoming.method, headers: { ...headersOf(incoming), host: url.host } };
  const upstream = send(url, options, (answer) => {
    const { statusCode: status = 502 } = answer;
    outgoing.writeHead(status, headersOf(answer));
    // The program learns at once that a stream has begun.
    outgoing.flushHeaders();
    const isModel = incoming.method === "POST" && modelPath.test(url.pathname);
    if (isModel && status >= 200 && status < 300) readUsage(answer, onUsage);
    // If the API cuts its answer, the program's side is cut as well.
    pipeline(answer, outgoing, () => undefined);
  });
  upstream.on("error", (error) => {
    if (outgoing.headersSent) return void outgoing.destroy();
    const message = `mcpvals could not reach the model's API: ${error.message}`;
    outgoing.writeHead(502, { "content-type": "application/json" });
    outgoing.end(JSON.stringify({ error: { type: "api_error", message } }));
  });
  outgoing.on("close", () => upstream.destroy());
  pipeline(incoming, upstream, () => undefined);
}

/** The ends of paths that are answered by a model. */
const modelPath = /(?:\/messages|\/responses|\/chat\/completions|:generateContent|:streamGenerateContent)$/;

/** Headers that are between two neighbours only. */
const ownHeaders = new Set(["connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer"]);

function headersOf({ headersDistinct }: IncomingMessage): OutgoingHttpHeaders {
  const passed = Object.entries(headersDistinct).filter(([name]) => !ownHeaders.has(name));
  return Object.fromEntries(
    passed.map(([name, values]) => [name, values?.length === 1 ? values[0] : values]),
  );
}

/** Unpacked at once, in bytes: a queue of tiny pieces takes a hundred times their size. */
const blockLength = 64 * 1024;
/** Bytes that may wait of an answer that comes faster than it can be unpacked. */
const maxWaiting = 8 * 1024 * 1024;

/** Reads the tokens in an answer while the agent gets it; whatever goes wrong here does not disturb that. */
function readUsage(answer: IncomingMessage, onUsage: OnUsage): void {
  const reader = createUsageReader(answer.headers["content-type"]);
  const plain = decoded(answer.headers["content-encoding"]);
  const waiting = new ByteStore();
  let read = 0;
  const report = ({ model, ...tokens }: ReportedTokens): void =>
    onUsage({ inputTokens: 0, outputTokens: 0, ...tokens, requests: 1 }, model);
  const giveUp = (): void => {
    plain.destroy();
    report(reader.finish());
  };
  plain.on("data", (chunk: Buffer) => {
    read += chunk.length;
    if (read <= maxOpenBytes) reader.push(chunk);
    else if (!plain.destroyed) giveUp();
  });
  plain.on("end", () => {
    const reported = reader.finish();
    // Nothing is known of an answer that was cut off before its tokens, not even that it was paid for.
    if (answer.complete || reported.inputTokens !== undefined) report(reported);
  });
  // What cannot be unpacked has no tokens to read; the agent gets it unchanged.
  plain.on("error", () => undefined);
  answer.on("data", (chunk: Buffer) => {
    if (plain.destroyed) return;
    waiting.push(chunk);
    if (plain.writableLength > maxWaiting) giveUp();
    else if (waiting.length >= blockLength) plain.write(waiting.take());
  });
  answer.on("close", () => {
    if (!plain.destroyed) plain.end(waiting.take());
  });
}

function decoded(encoding = ""): Transform {
  if (encoding === "br") return createBrotliDecompress();
  return ["gzip", "x-gzip", "deflate"].includes(encoding) ? createUnzip() : new PassThrough();
}

/** Longest body, or line of a stream, that is read, in bytes. */
const limit = 16 * 1024 * 1024;

/** Tokens and the model, as far as an answer reports them. */
export type ReportedTokens = Partial<Omit<Usage, "requests">> & { readonly model?: string };

/** Reads the tokens in the body of an answer while it passes; keeps nothing else of it. */
export interface UsageReader {
  push(chunk: Buffer): void;
  /** What was reported, once the body has ended. */
  finish(): ReportedTokens;
}

/** Creates the reader for a type of content: a stream of events, or JSON. */
export function createUsageReader(contentType = ""): UsageReader {
  if (!/^text\/event-stream\b/i.test(contentType)) return createJsonReader();
  let reported: ReportedTokens = {};
  const onLine = (line: Buffer): void => {
    if (line.toString("latin1", 0, 5) === "data:" && line.includes("usage"))
      reported = { ...reported, ...usageIn(parse(line.subarray(5))) };
  };
  const lines = new LineReader({ limit, onLine, onTooLong: () => undefined });
  return {
    push: (chunk) => lines.push(chunk),
    finish: () => {
      lines.end();
      return reported;
    },
  };
}

function createJsonReader(): UsageReader {
  const body = new ByteStore();
  let isTooLong = false;
  return {
    push: (chunk) => {
      isTooLong ||= body.length + chunk.length > limit;
      if (isTooLong) body.clear();
      else body.push(chunk);
    },
    finish: () => {
      const value = parse(body.take());
      // Gemini streams an array unless it is asked for events.
      const pieces: readonly unknown[] = Array.isArray(value) ? value : [value];
      return pieces.reduce<ReportedTokens>((reported, piece) => ({ ...reported, ...usageIn(piece) }), {});
    },
  };
}

function parse(json: Buffer): unknown {
  if (jsonExcess(json) !== undefined) return undefined;
  try {
    return JSON.parse(json.toString("utf8")) as unknown;
  } catch {
    return undefined;
  }
}

/**
 * Reads the tokens in an answer of a model's API, or in one event of a stream: Anthropic Messages, OpenAI Responses
 * and Chat Completions, Gemini. Later events of a stream replace what earlier ones reported. Input includes what came from
 * a cache.
 */
function usageIn(piece: unknown): ReportedTokens {
  const value = asObject(piece);
  const holders = [value, asObject(value["message"]), asObject(value["response"])];
  const models = [value["model"], value["modelVersion"], ...holders.slice(1).map((each) => each["model"])];
  const model = models.map(textOf).find((name) => name !== undefined);
  return withoutUndefined({ ...tokensIn(value, holders), model });
}

function tokensIn(value: WireObject, holders: readonly WireObject[]): Record<string, number | undefined> {
  if ("usageMetadata" in value) {
    const usage = asObject(value["usageMetadata"]);
    return {
      inputTokens: sum(usage["promptTokenCount"], usage["toolUsePromptTokenCount"]),
      outputTokens: sum(usage["candidatesTokenCount"], usage["thoughtsTokenCount"]),
      cacheReadTokens: sum(usage["cachedContentTokenCount"]),
    };
  }
  const holder = holders.find(({ usage }) => typeof usage === "object" && usage !== null);
  if (holder === undefined) return {};
  const usage = asObject(holder["usage"]);
  if ("prompt_tokens" in usage)
    return {
      inputTokens: sum(usage["prompt_tokens"]),
      outputTokens: sum(usage["completion_tokens"]),
      cacheReadTokens: sum(asObject(usage["prompt_tokens_details"])["cached_tokens"]),
    };
  if ("input_tokens_details" in usage || holder === holders[2])
    return {
      inputTokens: sum(usage["input_tokens"]),
      outputTokens: sum(usage["output_tokens"]),
      cacheReadTokens: sum(asObject(usage["input_tokens_details"])["cached_tokens"]),
    };
  const { cache_read_input_tokens: read, cache_creation_input_tokens: written, input_tokens: fresh } = usage;
  return {
    // Anthropic reports here only what did not come from a cache.
    inputTokens: typeof fresh === "number" ? sum(fresh, read, written) : undefined,
    outputTokens: sum(usage["output_tokens"]),
    cacheReadTokens: sum(read),
    cacheWriteTokens: sum(written),
  };
}

/** Undefined when there is no number among them. */
function sum(...values: readonly unknown[]): number | undefined {
  const numbers = values.filter((value): value is number => typeof value === "number" && value >= 0);
  return numbers.length === 0 ? undefined : numbers.reduce((total, each) => total + each, 0);
}
