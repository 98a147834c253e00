import { setTimeout as wait } from "node:timers/promises";
import type { generateText } from "ai";
import { McpvalsError } from "../core/errors/error.ts";
import type { ModelSpec } from "../core/formats/model.ts";
import { JsonMeter } from "../core/formats/read-json.ts";
import type { Emit, Usage } from "../core/trace/events.ts";
import { createRedactor } from "../core/trace/redact.ts";
import { mostLevels } from "../process/bounded-fetch.ts";
import type { LanguageModelV4, ModelAccess, ModelAnswer, ModelCallOptions } from "./locate-model.ts";
import { classifyFailure, type ModelFailure, UnusableAnswer } from "./model-failure.ts";
import { mostRead } from "./resolve-model.ts";

/** How to retry, and the chance and time that it takes; all have defaults. */
export interface RetrySettings extends Partial<RetryPolicy> {
  /** Returns 0 to 1. */
  readonly random?: () => number;
  /** Resolves after `ms`; rejects when the signal aborts. */
  readonly sleep?: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
  /** Milliseconds since the Unix epoch. */
  readonly now?: () => number;
}

export interface RetryingModelOptions {
  readonly access: ModelAccess;
  readonly purpose: "agent" | "judge";
  readonly emit: Emit;
  /** Longest that one attempt may take, in milliseconds. */
  readonly requestTimeoutMs: number;
  readonly retry?: RetrySettings;
}

/**
 * Wraps a model so that every answer is emitted as `model.called` and every failed attempt that is tried again as
 * `model.retried`. Throttling, server errors, broken connections and attempts that take too long are retried with
 * exponential backoff, or after the time that the provider asks for, within the limits of the retry policy.
 *
 * The wrapped model throws McpvalsError `model/unreachable`, `model/rejected` or `model/invalid-response`, with the
 * provider's error as its cause, and the reason of the call's own signal when that aborts.
 */
export async function createRetryingModel(
  model: LanguageModelV4,
  options: RetryingModelOptions,
): Promise<LanguageModelV4> {
  const ai = await loadAiSdk();
  return ai.wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: "v4",
      wrapGenerate: ({ model: inner, params }) => new RetriedCall(inner, params, { ...options, ai }).run(),
    },
  });
}

/** A timer that is set for longer fires at once. */
const longestTimer = 2 ** 31 - 1;

type CallContext = RetryingModelOptions & { readonly ai: Awaited<ReturnType<typeof loadAiSdk>> };

/** One request with its retries; lives as long as the request. */
class RetriedCall {
  readonly #model: LanguageModelV4;
  readonly #params: ModelCallOptions;
  readonly #context: CallContext;
  readonly #policy: RetryPolicy;
  #attempt = 1;
  #waitedMs = 0;

  constructor(model: LanguageModelV4, params: ModelCallOptions, context: CallContext) {
    this.#model = model;
    this.#params = params;
    this.#context = context;
    this.#policy = { ...defaultRetryPolicy, ...context.retry };
  }

  async run(): Promise<ModelAnswer> {
    for (;;) {
      const started = performance.now();
      try {
        const answer = await this.#ask();
        this.#emitAnswer(answer, performance.now() - started);
        return answer;
      } catch (error) {
        this.#params.abortSignal?.throwIfAborted();
        await this.#waitOrGiveUp(error);
      }
    }
  }

  async #ask(): Promise<ModelAnswer> {
    const requestTimeoutMs = Math.min(this.#context.requestTimeoutMs, longestTimer);
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(new RequestTimeout(requestTimeoutMs)), requestTimeoutMs);
    const signals = [deadline.signal, this.#params.abortSignal].filter((signal) => signal !== undefined);
    try {
      const answer = await this.#model.doGenerate({ ...this.#params, abortSignal: AbortSignal.any(signals) });
      refuseExcess(answer);
      return answer;
    } catch (error) {
      throw deadline.signal.aborted ? deadline.signal.reason : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Returns after the wait before the next attempt, or throws the final error. */
  async #waitOrGiveUp(error: unknown): Promise<void> {
    const failure =
      error instanceof RequestTimeout ? timeoutFailure(error) : classifyFailure(error, this.#context.ai);
    if (failure === undefined) throw error;
    if (!failure.retryable || this.#attempt > this.#policy.maxRetries) throw this.#finalError(failure, error);
    const { retry } = this.#context;
    const asked = askedDelay(failure.headers, retry?.now ?? Date.now);
    const delayMs = retryDelay(this.#policy, this.#attempt, { asked, random: retry?.random ?? Math.random });
    const leftMs = this.#policy.waitBudgetMs - this.#waitedMs;
    if (delayMs > leftMs) throw this.#finalError(failure, error, tooLong(delayMs, leftMs));
    this.#emitRetry(failure, delayMs);
    await this.#pause(delayMs);
    this.#waitedMs += delayMs;
    this.#attempt += 1;
  }

  async #pause(delayMs: number): Promise<void> {
    const signal = this.#params.abortSignal;
    const sleep = this.#context.retry?.sleep ?? sleepFor;
    try {
      await sleep(delayMs, signal);
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    }
  }

  #emitAnswer(answer: ModelAnswer, durationMs: number): void {
    const { emit, purpose, access } = this.#context;
    emit({
      type: "model.called",
      purpose,
      model: access.label,
      durationMs,
      finishReason: answer.finishReason.unified,
      usage: usageOf(answer),
    });
  }

  #emitRetry(failure: ModelFailure, delayMs: number): void {
    const { emit, purpose, access } = this.#context;
    emit({
      type: "model.retried",
      purpose,
      model: access.label,
      attempt: this.#attempt,
      reason: this.#clean(failure.reason),
      ...(failure.status === undefined ? {} : { status: failure.status }),
      delayMs,
    });
  }

  #finalError(failure: ModelFailure, cause: unknown, note = ""): McpvalsError {
    const { access } = this.#context;
    const attempts = this.#attempt === 1 ? "1 attempt" : `${this.#attempt} attempts`;
    const place = new URL(access.baseURL).origin;
    const text = {
      "model/unreachable": `${access.label} at ${place} did not answer after ${attempts}: ${failure.reason}${note}`,
      "model/rejected": `${access.label} at ${place} refused the request: ${failure.reason}`,
      "model/invalid-response": `${access.label} at ${place} gave an invalid response: ${failure.reason}`,
    }[failure.code];
    const hint = hintOf(failure);
    return new McpvalsError(failure.code, this.#clean(text), {
      cause,
      ...(hint === undefined ? {} : { hint }),
    });
  }

  /** Providers and proxies may repeat a key in their messages. */
  #clean(text: string): string {
    const { apiKey, headers } = this.#context.access;
    const secrets = Object.entries({ ...headers, ...(apiKey === undefined ? {} : { apiKey }) });
    return createRedactor(secrets.map(([name, value]) => ({ name, value })))(text);
  }
}

/** The arguments of calls are JSON in a text, which is parsed, too. */
function refuseExcess({ content }: ModelAnswer): void {
  let values = 0;
  for (const part of content) {
    if (part.type !== "tool-call") continue;
    const meter = new JsonMeter().push(Buffer.from(part.input));
    values += meter.values;
    if (meter.deepest > mostLevels) throw excess(`${mostLevels} levels`);
    if (values > mostRead.values) throw excess(`${mostRead.values} values`);
  }
}

function excess(more: string): UnusableAnswer {
  return new UnusableAnswer(`the arguments of its calls have more than ${more}`);
}

/** One attempt took longer than it may. */
class RequestTimeout extends Error {
  constructor(limitMs: number) {
    super(`no answer within ${limitMs / 1000} s`);
    this.name = "RequestTimeout";
  }
}

function timeoutFailure(error: RequestTimeout): ModelFailure {
  return { code: "model/unreachable", reason: error.message, retryable: true };
}

async function sleepFor(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await wait(ms, undefined, signal === undefined ? {} : { signal });
}

function tooLong(delayMs: number, leftMs: number): string {
  return `; the next attempt would have to wait ${delayMs / 1000} s, and only ${leftMs / 1000} s are left for waiting`;
}

function hintOf(failure: ModelFailure): string | undefined {
  switch (failure.status) {
    case 301:
    case 302:
    case 307:
    case 308:
      return "Give the base URL that it redirects to.";
    case 401:
    case 403:
      return "Check the API key and that it may use this model.";
    case 404:
      return "Check the model's name and the base URL.";
    case 429:
      // No waiting mends an account that is used up.
      if (failure.code === "model/rejected") return "Raise the account's quota or limit, or use another key.";
      return "Run fewer trials at once, or try again when the provider's limit has passed.";
    default:
      return undefined;
  }
}

/** Tokens as the provider counts them; 0 where it does not say. `inputTokens` includes tokens read from or written to a cache. */
function usageOf({ usage }: ModelAnswer): Usage {
  const { total, cacheRead, cacheWrite } = usage.inputTokens;
  return {
    inputTokens: total ?? 0,
    outputTokens: usage.outputTokens.total ?? 0,
    ...(cacheRead === undefined ? {} : { cacheReadTokens: cacheRead }),
    ...(cacheWrite === undefined ? {} : { cacheWriteTokens: cacheWrite }),
    requests: 1,
  };
}

/** How often and how long to try again when a model does not answer. Times are in milliseconds. */
export interface RetryPolicy {
  /** Attempts after the first. */
  readonly maxRetries: number;
  /** Longest first wait; the longest wait doubles with every attempt. */
  readonly baseDelayMs: number;
  /** Longest single wait that we choose ourselves. */
  readonly maxDelayMs: number;
  /** Longest that all waits between attempts may take together. */
  readonly waitBudgetMs: number;
}

export const defaultRetryPolicy: RetryPolicy = {
  maxRetries: 4,
  baseDelayMs: 500,
  maxDelayMs: 30_000,
  waitBudgetMs: 60_000,
};

/**
 * How long to wait after the given failed attempt, counting from 1: what the provider asked for, else exponential
 * backoff with full jitter. `random` returns 0 to 1.
 */
export function retryDelay(
  policy: RetryPolicy,
  attempt: number,
  options: { readonly asked: number | undefined; readonly random: () => number },
): number {
  if (options.asked !== undefined) return options.asked;
  const longest = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1));
  return Math.round(options.random() * longest);
}

/**
 * The wait that a response asks for, in milliseconds: `retry-after-ms`, else `retry-after` in seconds or as an HTTP
 * date (RFC 9110, 10.2.3); undefined when it asks for none. `now` is the time in milliseconds since the Unix epoch.
 */
export function askedDelay(
  headers: Readonly<Record<string, string>> | undefined,
  now: () => number,
): number | undefined {
  const milliseconds = numberIn(headers?.["retry-after-ms"]);
  if (milliseconds !== undefined) return milliseconds;
  const written = headers?.["retry-after"];
  const seconds = numberIn(written);
  if (seconds !== undefined) return seconds * 1000;
  // Every form of an HTTP date begins with the day of the week; Date.parse takes much else for a date.
  const date = written !== undefined && /^\s*[a-z]{3}/i.test(written) ? Date.parse(written) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now());
}

function numberIn(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d+(?:\.\d+)?\s*$/.test(text) ? Number(text) : undefined;
}

/**
 * Loads the AI SDK, which costs some sixty milliseconds, when a model is first used. Its warnings are silenced: they
 * would be printed between the lines of a report, and nothing reads them.
 */
export async function loadAiSdk(): Promise<typeof import("ai")> {
  globalThis.AI_SDK_LOG_WARNINGS = false;
  return import("ai");
}

type CallSettings = Pick<
  Parameters<typeof generateText>[0],
  "maxRetries" | "temperature" | "maxOutputTokens" | "providerOptions"
>;

/** Anthropic's API demands a limit; the AI SDK knows one only for the models that it knows. */
const anthropicOutputTokens = 8192;

/**
 * What every request to a model carries: temperature and output limit only if the user set them. Retrying is the
 * wrapped model's work, so the SDK's own is off. OpenAI is asked to store nothing: the conversation is then sent whole
 * with each request instead of by reference to what OpenAI kept.
 */
export function callSettings(spec: ModelSpec, access: ModelAccess): CallSettings {
  const maxOutputTokens =
    spec.maxOutputTokens ?? (access.wire === "anthropic" ? anthropicOutputTokens : undefined);
  return {
    maxRetries: 0,
    ...(spec.temperature === undefined ? {} : { temperature: spec.temperature }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(access.wire === "openai-responses" ? { providerOptions: { openai: { store: false } } } : {}),
  };
}
