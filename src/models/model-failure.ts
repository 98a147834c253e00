import type { APICallError } from "ai";

/** Why one attempt to ask a model failed, and what follows from it. */
export interface ModelFailure {
  readonly code: "model/unreachable" | "model/rejected" | "model/invalid-response";
  /** One line: the HTTP status with the provider's message, or what happened to the connection. */
  readonly reason: string;
  readonly status?: number;
  readonly retryable: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A response whose body is not used; the message says what is wrong with it. */
export class UnusableAnswer extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = "UnusableAnswer";
  }
}

type AiSdk = typeof import("ai");

/** Reads an error that a provider threw; undefined when it is none of the ways in which asking a model fails. */
export function classifyFailure(error: unknown, ai: AiSdk): ModelFailure | undefined {
  if (ai.APICallError.isInstance(error)) return classifyCall(error);
  if (error instanceof UnusableAnswer) return invalid(error.message);
  if (ai.InvalidResponseDataError.isInstance(error)) return invalid(error.message);
  if (ai.UnsupportedFunctionalityError.isInstance(error)) {
    return { code: "model/rejected", reason: error.message, retryable: false };
  }
  return undefined;
}

function classifyCall(error: APICallError): ModelFailure {
  const unusable = causesOf(error).find((cause) => cause instanceof UnusableAnswer);
  if (unusable !== undefined) return invalid(unusable.message);
  const connection = connectionCode(error.cause);
  if (connection !== undefined) {
    return { code: "model/unreachable", reason: connectionReason(connection), retryable: true };
  }
  const { statusCode: status } = error;
  if (status === undefined) {
    return { code: "model/unreachable", reason: oneLine(error.message), retryable: false };
  }
  if (status >= 200 && status < 300) return invalid(`HTTP ${status}, ${bodyOf(error)}`);
  return classifyStatus(error, status);
}

function classifyStatus(error: APICallError, status: number): ModelFailure {
  const headers = error.responseHeaders ?? {};
  const retryable = isTransient(status) && headers["x-should-retry"] !== "false" && !isOutOfQuota(error);
  const transient = isTransient(status) && !isOutOfQuota(error);
  return {
    code: transient ? "model/unreachable" : "model/rejected",
    reason: `HTTP ${status}: ${providerMessage(error)}`,
    status,
    retryable,
    headers,
  };
}

/** Request timeout, conflict, too many requests, and everything that the server blames on itself. */
function isTransient(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** OpenAI answers an exhausted account with 429, which no waiting mends. */
function isOutOfQuota(error: APICallError): boolean {
  return error.responseBody?.includes('"insufficient_quota"') ?? false;
}

function invalid(reason: string): ModelFailure {
  return { code: "model/invalid-response", reason: oneLine(reason), retryable: false };
}

function bodyOf(error: APICallError): string {
  const body = error.responseBody;
  if (body === undefined) return error.message;
  return body.trim() === "" ? "an empty body" : `a body that is not the expected JSON: ${excerpt(body)}`;
}

function providerMessage(error: APICallError): string {
  const parsed = error.data !== undefined;
  const body = error.responseBody?.trim() ?? "";
  if (parsed || body === "") return oneLine(error.message) || "no message";
  return oneLine([error.message, excerpt(body)].filter((part) => part !== "").join(": "));
}

const longestExcerpt = 300;

function excerpt(text: string): string {
  const line = oneLine(text);
  return line.length > longestExcerpt ? `${line.slice(0, longestExcerpt)}…` : line;
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}

/** Ways in which a connection fails that may not happen again. */
const passingCodes: Readonly<Record<string, string>> = {
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

function connectionReason(code: string): string {
  return `${passingCodes[code]} (${code})`;
}

const deepestCause = 8;

function connectionCode(error: unknown): string | undefined {
  return causesOf(error)
    .map((cause) => ("code" in cause && typeof cause.code === "string" ? cause.code : ""))
    .find((code) => Object.hasOwn(passingCodes, code));
}

/** An error and what caused it, outermost first. */
function causesOf(error: unknown): Error[] {
  const causes: Error[] = [];
  for (let cause = error; causes.length < deepestCause && cause instanceof Error; cause = cause.cause)
    causes.push(cause);
  return causes;
}
