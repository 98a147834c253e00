import { setTimeout as wait } from "node:timers/promises";
import type { APICallError, generateText } from "ai";
import { causesOf, codeOf, McpvalsError } from "../../base/error.ts";
import { withoutUndefined } from "../../base/json.ts";
import type { ModelSpec } from "../../model/agent.ts";
import { JsonMeter, repeatedKey } from "../../base/read-json.ts";
import type { Emit, EventOf } from "../../model/event.ts";
import { maxRecordDepth, maxAnswerValues } from "../../base/limits.ts";
import { abortAfter, type Hold } from "../../process/deadline.ts";
import {
  type AdaptiveLimit,
  type LimitChange,
  sharedLimit,
  type SharedLimits,
} from "../../process/adaptive-limit.ts";
import { askedDelay, defaultRetryPolicy, retryDelay, type RetryPolicy } from "../../process/retry.ts";
import { trialModels } from "./exchanges.ts";
import type { LanguageModelV4, ModelAccess } from "./model-access.ts";
import {
  excerpt,
  type ModelAnswer,
  type ModelCallOptions,
  oneLine,
  UnusableAnswer,
} from "./resolve-model.ts";
import {
  CutOffAnswer,
  type StreamedAnswer,
  streamedAnswer,
  StreamedError,
  UnreadableStream,
} from "./streamed-answer.ts";

/** The retry policy, and the sources of chance and time; all have defaults. */
export interface RetrySettings extends Partial<RetryPolicy> {
  /** Returns 0 to 1. */
  readonly random?: () => number;
  /** Resolves after `ms`; rejects when the signal aborts. */
  readonly sleep?: (ms: number, signal: AbortSignal | undefined) => Promise<unknown>;
  /** Milliseconds since the Unix epoch. */
  readonly now?: () => number;
}

export interface RetryingModelOptions {
  readonly access: ModelAccess;
  readonly purpose: EventOf<"model.called">["purpose"];
  readonly emit: Emit;
  /** Whether answers are asked for as streams, so that the time to the first token is known. Default: false. */
  readonly stream?: boolean;
  /** Longest that one attempt may take, in milliseconds. */
  readonly requestTimeoutMs: number;
  readonly retry?: RetrySettings;
  /** The accounts of the run; absent: requests are sent whatever others wait for. */
  readonly accounts?: SharedLimits;
  /** Stops a time limit while a request waits because of the provider's rate limit. */
  readonly hold?: Hold;
}

/**
 * Wraps a model so that every answer is emitted as `model.called` and every failed attempt that is tried again as
 * `model.retried`. Throttling, server errors, broken connections and attempts that take too long are retried with
 * exponential backoff, or after the time that the provider asks for, within the limits of the retry policy.
 * Throttling limits all requests to the account (see `AdaptiveLimit`): changes are emitted as `model.limit_changed`, and what waits for
 * it as `model.waiting`. A wait takes no time of the request.
 *
 * What providers say may repeat a key: it is removed where the error or the event is recorded, as everywhere.
 *
 * The wrapped model throws McpvalsError `model/unreachable`, `model/rejected`, `model/context-overflow` or `model/invalid-response`, with the
 * provider's error as its cause, and the reason of the call's own signal when that aborts.
 */
export async function createRetryingModel(
  model: LanguageModelV4,
  options: RetryingModelOptions,
): Promise<LanguageModelV4> {
  // Of the trial that the model is for: a request may come in the course of another one, from a server that trials share.
  const trial = trialModels.getStore();
  const ai = await loadAiSdk();
  return ai.wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: "v4",
      wrapGenerate: ({ model: inner, params }) => {
        const { access, purpose } = options;
        const ask = (emit: Emit): Promise<ModelAnswer> =>
          callWithRetries(inner, params, { ...options, emit, ai });
        const asked = { purpose, model: access.label, params };
        return trial?.exchange(asked, options.emit, ask) ?? ask(options.emit);
      },
    },
  });
}

async function callWithRetries(
  model: LanguageModelV4,
  params: ModelCallOptions,
  options: RetryingModelOptions & { readonly ai: AiSdk },
): Promise<ModelAnswer> {
  const { access, purpose, emit, stream = false, requestTimeoutMs, retry = {}, accounts, ai } = options;
  const { hold = (waiting) => waiting } = options;
  const account = accounts && accountOf(accounts, access);
  const about = { purpose, model: access.label };
  const noteChange = (change: LimitChange | undefined, reason: string): void => {
    if (change !== undefined) emit({ type: "model.limit_changed", ...about, ...change, reason });
  };
  const policy = { ...defaultRetryPolicy, ...retry };
  const { abortSignal } = params;
  const { sleep = sleepFor, now = Date.now, random = Math.random } = retry;
  let leftMs = policy.waitBudgetMs;
  let throttledMs = 0;
  const held = async (waiting: Promise<unknown>): Promise<void> => {
    const since = performance.now();
    await hold(waiting);
    throttledMs += Math.round(performance.now() - since);
  };
  for (let attempt = 1; ; attempt += 1) {
    for (let isPaused = true; isPaused;) {
      const { waiting, ...why } = account?.enter(abortSignal) ?? {};
      if (waiting !== undefined) {
        emit({ type: "model.waiting", ...about, ...why });
        await held(waiting);
      }
      isPaused = account !== undefined && (await hold(account.isPausedElsewhere(abortSignal)));
    }
    const started = performance.now();
    try {
      const { answer, firstTokenMs } = await ask(model, params, { stream, ms: requestTimeoutMs });
      const durationMs = performance.now() - started;
      if (attempt === 1) noteChange(account?.answered(), "requests were answered");
      else account?.ended();
      const [read, written] = [
        tokens(answer.usage.inputTokens.total),
        tokens(answer.usage.outputTokens.total),
      ];
      const usage = withoutUndefined({
        inputTokens: read ?? 0,
        outputTokens: written ?? 0,
        cacheReadTokens: tokens(answer.usage.inputTokens.cacheRead),
        cacheWriteTokens: tokens(answer.usage.inputTokens.cacheWrite),
        requests: 1,
        // Some servers that are compatible with OpenAI do not count.
        isPartial: read === undefined || written === undefined ? (true as const) : undefined,
      });
      const finishReason = answer.finishReason.unified;
      const throttled = throttledMs === 0 ? {} : { throttledMs };
      const times = withoutUndefined({ durationMs, firstTokenMs });
      emit({ type: "model.called", ...about, ...times, ...throttled, finishReason, usage });
      return { ...answer, content: answer.content.map(markRepeatedKey) };
    } catch (error) {
      const failure = abortSignal?.aborted === true ? undefined : classifyFailure(error, ai);
      if (failure === undefined) {
        account?.ended();
        abortSignal?.throwIfAborted();
        throw error;
      }
      const { code, reason, status, retryable, headers } = failure;
      const asked = askedDelay(headers, now);
      const delayMs = retryDelay(policy, attempt, { asked, random });
      const canWait = delayMs <= leftMs;
      const isAgain = retryable && attempt <= policy.maxRetries && canWait;
      const isThrottled = retryable && throttling.includes(status);
      // What is too long for this request is too long for the others too.
      if (isThrottled) noteChange(account?.refused(isAgain ? asked : undefined), reason);
      else account?.ended();
      if (!isAgain) {
        const isWaitTooLong = retryable && attempt <= policy.maxRetries;
        const note = `; the next attempt would have to wait ${delayMs / 1000} s, and only ${leftMs / 1000} s are left for waiting`;
        const attempts = attempt === 1 ? "1 attempt" : `${attempt} attempts`;
        const outcome = {
          "model/unreachable": `did not answer after ${attempts}: ${reason}${isWaitTooLong ? note : ""}`,
          "model/rejected": `refused the request: ${reason}`,
          "model/context-overflow": `refused a request that is longer than its context window: ${reason}`,
          "model/invalid-response": `gave an invalid response: ${reason}`,
        }[code];
        const message = `${access.label} at ${new URL(access.baseURL).origin} ${outcome}`;
        throw new McpvalsError(code, message, withoutUndefined({ cause: error, hint: hintOf(failure) }));
      }
      const reported = withoutUndefined({ attempt, reason, status, delayMs });
      emit({ type: "model.retried", ...about, ...reported });
      leftMs -= delayMs;
      const sleeping = sleep(delayMs, abortSignal);
      await (isThrottled ? held(sleeping) : sleeping).catch((cause: unknown) => {
        abortSignal?.throwIfAborted();
        throw cause;
      });
    }
  }
}

/** A number of tokens; undefined for what is none, which must not make up for others. */
function tokens(value: number | undefined): number | undefined {
  return value !== undefined && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** The statuses of a request that was one too many: RFC 6585, and Anthropic's "overloaded". */
const throttling: readonly (number | undefined)[] = [429, 529];

async function ask(
  model: LanguageModelV4,
  params: ModelCallOptions,
  { stream, ms }: { readonly stream: boolean; readonly ms: number },
): Promise<StreamedAnswer> {
  using limit = abortAfter(
    ms,
    () => new RequestTimeout(`no answer within ${ms / 1000} s`),
    params.abortSignal,
  );
  try {
    const limited = { ...params, abortSignal: limit.signal };
    const asked = stream
      ? await streamedAnswer(model, limited)
      : { answer: await model.doGenerate(limited), firstTokenMs: undefined };
    refuseExcess(asked.answer);
    return asked;
  } catch (error) {
    throw limit.signal.reason instanceof RequestTimeout ? limit.signal.reason : error;
  }
}

/** The arguments of calls are JSON as a text, which is parsed later. */
function refuseExcess({ content }: ModelAnswer): void {
  const tooMuch = "the arguments of its calls have more than";
  let values = 0;
  for (const part of content) {
    if (part.type !== "tool-call") continue;
    const meter = new JsonMeter().push(Buffer.from(part.input));
    values += meter.values;
    if (meter.deepest > maxRecordDepth) throw new UnusableAnswer(`${tooMuch} ${maxRecordDepth} levels`);
    if (values > maxAnswerValues) throw new UnusableAnswer(`${tooMuch} ${maxAnswerValues} values`);
  }
}

/** The AI SDK parses the arguments of a call, of which the last value of a repeated key stays. */
function markRepeatedKey<T extends ModelAnswer["content"][number]>(part: T): T {
  const key = part.type === "tool-call" ? repeatedKey(part.input) : undefined;
  if (part.type !== "tool-call" || key === undefined) return part;
  return { ...part, providerMetadata: { ...part.providerMetadata, [ownMetadata]: { repeatedKey: key } } };
}

/** The key that stands twice in the arguments of a call, of which a model answered. */
export function repeatedKeyOf({ providerMetadata }: Pick<ToolCall, "providerMetadata">): string | undefined {
  const key = providerMetadata?.[ownMetadata]?.["repeatedKey"];
  return typeof key === "string" ? key : undefined;
}

type ToolCall = Extract<ModelAnswer["content"][number], { readonly type: "tool-call" }>;

/** Where notes of mcpvals stand beside those of providers. */
const ownMetadata = "mcpvals";

/** The limit that all requests with the same key to the same provider share. */
function accountOf(
  accounts: SharedLimits,
  { provider, baseURL, apiKey, signing, headers }: ModelAccess,
): AdaptiveLimit {
  return sharedLimit(accounts, JSON.stringify([provider, baseURL, apiKey, signing, headers]));
}

/** One attempt took longer than it may. */
class RequestTimeout extends Error {}

async function sleepFor(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await wait(ms, undefined, signal === undefined ? {} : { signal });
}

type AiSdk = typeof import("ai");

/**
 * Loads the AI SDK, which takes some sixty milliseconds, when a model is first used. Its warnings are silenced: they
 * would be printed between the lines of a report.
 */
export async function loadAiSdk(): Promise<AiSdk> {
  globalThis.AI_SDK_LOG_WARNINGS = false;
  return import("ai");
}

type CallSettings = Pick<
  Parameters<typeof generateText>[0],
  "maxRetries" | "temperature" | "maxOutputTokens" | "reasoning" | "providerOptions"
>;

/**
 * OpenAI is asked to store nothing: the conversation is then sent whole with each request instead of by reference to what OpenAI kept.
 * Anthropic is asked to cache the prompt, which others do unasked. Whether a model reasons is known by its name, but not by that of a
 * deployment of Azure: there the effort says it.
 */
function providerOptionsOf(
  { wire }: ModelAccess,
  effort: ModelSpec["effort"],
): CallSettings["providerOptions"] {
  const reasons = effort === undefined || effort === "none" ? {} : { forceReasoning: true };
  switch (wire) {
    case "openai-responses":
      return { openai: { store: false } };
    case "azure-responses":
      return { azure: { store: false, ...reasons } };
    case "azure-chat":
      return { openai: reasons };
    case "anthropic":
      return { anthropic: { cacheControl: { type: "ephemeral" } } };
    default:
      return undefined;
  }
}

/** Anthropic's API demands a limit; the AI SDK knows one only for the models that it knows. */
const anthropicOutputTokens = 8192;

/**
 * The settings of every request to a model: temperature and output limit only if the user set them. The wrapped model
 * retries, so the SDK does not.
 */
export function callSettings(
  { temperature, maxOutputTokens, effort }: ModelSpec,
  access: ModelAccess,
): CallSettings {
  const limit = maxOutputTokens ?? (access.wire === "anthropic" ? anthropicOutputTokens : undefined);
  const providerOptions = providerOptionsOf(access, effort);
  return {
    maxRetries: 0,
    ...withoutUndefined({ temperature, maxOutputTokens: limit, reasoning: effort }),
    ...(providerOptions === undefined ? {} : { providerOptions }),
  };
}

/** Why one attempt to ask a model failed, and what follows from it. */
interface ModelFailure {
  readonly code: "model/unreachable" | "model/rejected" | "model/context-overflow" | "model/invalid-response";
  /** One line: the HTTP status with the provider's message, or what happened to the connection. */
  readonly reason: string;
  readonly status?: number;
  readonly retryable: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Reads an error that a provider threw; undefined for an error that is not a failure to ask a model. */
function classifyFailure(error: unknown, ai: AiSdk): ModelFailure | undefined {
  if (error instanceof RequestTimeout)
    return { code: "model/unreachable", reason: error.message, retryable: true };
  if (error instanceof CutOffAnswer)
    return { code: "model/unreachable", reason: error.message, retryable: true };
  if (error instanceof StreamedError) return classifyStreamed(error);
  if (
    error instanceof UnusableAnswer ||
    ai.InvalidResponseDataError.isInstance(error) ||
    ai.TypeValidationError.isInstance(error)
  )
    return invalid(error.message);
  // The message of the error has a piece of the text, cut where a secret in it is not known any more.
  if (ai.JSONParseError.isInstance(error)) return invalid(`it is not JSON: ${excerpt(error.text)}`);
  if (ai.UnsupportedFunctionalityError.isInstance(error))
    return { code: "model/rejected", reason: error.message, retryable: false };
  const causes = causesOf(error);
  const unusable = causes.find((cause) => cause instanceof UnusableAnswer);
  if (unusable !== undefined) return invalid(unusable.message);
  const connection = causes
    .slice(1)
    .map((cause) => codeOf(cause) ?? "")
    .find((code) => Object.hasOwn(connectionFailures, code));
  if (connection !== undefined) {
    const reason = `${connectionFailures[connection]} (${connection})`;
    return { code: "model/unreachable", reason, retryable: true };
  }
  if (error instanceof UnreadableStream) return invalid(error.message);
  return ai.APICallError.isInstance(error) ? classifyCall(error) : undefined;
}

/** An error after the answer had begun has no status of its own where the provider gives none. */
function classifyStreamed({ message, status, body, ...error }: StreamedError): ModelFailure {
  // Where the package does not say it: what providers call errors of the request.
  const {
    retryable = !/authentication|permission|invalid_(?:request|api_key)|insufficient_quota|not_found|"code": ?4(?!08|09|29)\d\d\b/.test(
      body,
    ),
  } = error;
  const reason = oneLine(status === undefined ? message : `${message} (HTTP ${status})`);
  if (isOverflow(400, body)) return { code: "model/context-overflow", reason, retryable: false };
  const known = withoutUndefined({ status });
  return { code: retryable ? "model/unreachable" : "model/rejected", reason, retryable, ...known };
}

function classifyCall(error: APICallError): ModelFailure {
  const { statusCode: status, responseBody: body = "", responseHeaders: headers = {} } = error;
  // Of a successful answer that it cannot use the AI SDK gives the parsed JSON, with a status of its own.
  if (typeof body !== "string") return invalid(`an answer of another form: ${excerpt(JSON.stringify(body))}`);
  if (status === undefined)
    return { code: "model/unreachable", reason: oneLine(error.message), retryable: false };
  if (status >= 200 && status < 300) {
    const what =
      error.responseBody === undefined
        ? error.message
        : `a body that is not the expected JSON: ${excerpt(body)}`;
    return invalid(`HTTP ${status}, ${what}`);
  }
  if (isOverflow(status, body))
    return {
      code: "model/context-overflow",
      reason: `HTTP ${status}: ${providerMessage(error)}`,
      status,
      retryable: false,
    };
  // Request timeout, conflict, too many requests, and what servers report as their own fault.
  const isTransient = status === 408 || status === 409 || status === 429 || status >= 500;
  // OpenAI answers with 429 for an exhausted account, where waiting does not help.
  const mayPass = isTransient && !body.includes('"insufficient_quota"');
  return {
    code: mayPass ? "model/unreachable" : "model/rejected",
    reason: `HTTP ${status}: ${providerMessage(error)}`,
    status,
    retryable: mayPass && headers["x-should-retry"] !== "false",
    headers,
  };
}

/** Whether a refusal is about the length of the request, in the words of providers; only OpenAI has a code for it. */
function isOverflow(status: number, body: string): boolean {
  const words =
    /context[_ ](?:length|window|size|limit)|(?:prompt|input) is too long|input token count.*exceeds/i;
  return (status === 400 || status === 413) && words.test(body);
}

function invalid(reason: string): ModelFailure {
  return { code: "model/invalid-response", reason: oneLine(reason), retryable: false };
}

function providerMessage({ data, message, responseBody = "" }: APICallError): string {
  const body = responseBody.trim();
  if (data !== undefined || body === "") return oneLine(message) || "no message";
  return oneLine([message, excerpt(body)].filter((part) => part !== "").join(": "));
}

/** Failures of a connection that may not happen again. */
const connectionFailures: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  ECONNABORTED: "connection aborted",
  EPIPE: "connection closed",
  ETIMEDOUT: "connection timed out",
  EHOSTUNREACH: "host unreachable",
  ENETUNREACH: "network unreachable",
  EAI_AGAIN: "name lookup failed for now",
  UND_ERR_SOCKET: "connection closed before the answer was complete",
  UND_ERR_CONNECT_TIMEOUT: "connection timed out",
  UND_ERR_HEADERS_TIMEOUT: "no answer in time",
  UND_ERR_BODY_TIMEOUT: "the answer stopped half way",
};

function hintOf({ status = 0, code }: ModelFailure): string | undefined {
  if ([301, 302, 307, 308].includes(status)) return "Give the base URL that it redirects to.";
  if ([401, 403].includes(status)) return "Check the API key and that it may use this model.";
  if (status === 404) return "Check the model's name and the base URL.";
  if (status !== 429) return undefined;
  return code === "model/rejected"
    ? "Raise the account's quota or limit, or use another key."
    : "Run fewer trials at once, or try again when the provider's limit has passed.";
}
