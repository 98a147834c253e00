import { McpvalsError } from "../../core/errors/error.ts";
import type { ErrorCode } from "../../core/errors/catalogue.ts";
import type { ServerSpec } from "../../core/formats/model.ts";
import { type Evidence, HttpNoAnswer, type ServerConnection } from "../connections/host.ts";
import type { HandshakeStep } from "./handshake.ts";
import { errorCodes, modernVersion } from "../messages/json-rpc.ts";
import { unusableAnswer } from "./answer-guard.ts";
import type { Sdk } from "./session.ts";
import { shortened } from "../../core/text/visible-text.ts";

export interface StartProblem {
  readonly connection: ServerConnection;
  readonly transport: ServerSpec["transport"];
  /** What was going on when it failed. */
  readonly step: HandshakeStep;
  readonly sdk: Sdk;
  /** Whether the time for the start was up, and how long that was, in milliseconds. */
  readonly timedOut: boolean;
  readonly timeoutMs: number;
}

/**
 * Says why a server did not become healthy, in the order of what is known best: it is gone, its time was up, HTTP failed,
 * or it answered something unusable.
 */
export function explainStartFailure(error: unknown, problem: StartProblem): McpvalsError {
  const { connection, step, timedOut } = problem;
  const evidence = connection.evidence();
  const lost: unknown = connection.lost.reason;
  if (lost instanceof McpvalsError) {
    if (lost.code === "server/unauthorized") return lost;
    const message = `${lost.message} before it had answered ${step}`;
    const hint = exitHint(lost);
    return typed(lost.code, message, { ...lost.details, ...(hint === undefined ? {} : { hint }), evidence });
  }
  if (timedOut) return timeoutFailure(problem, evidence);
  if (evidence.httpFailure !== undefined) return inContext(evidence.httpFailure, step);
  return protocolFailure(error, problem, evidence);
}

/** A variable that is missing is a usual reason to exit at the start. */
function exitHint({ code, details }: McpvalsError): string | undefined {
  if (code !== "server/exited") return details.hint;
  const environment =
    "It gets only a small safe environment: pass more variables with `env` or `inheritEnv`.";
  return details.hint === undefined ? environment : `${details.hint} ${environment}`;
}

function timeoutFailure(problem: StartProblem, evidence: Evidence): McpvalsError {
  const { connection, step, timeoutMs } = problem;
  const { firstInvalidLine } = evidence;
  const noise = firstInvalidLine === undefined ? "" : `; ${noiseText(firstInvalidLine)}`;
  return typed(
    "server/handshake-timeout",
    `server "${connection.name}" did not answer ${step} within ${timeoutMs} ms${noise}`,
    { hint: timeoutHint(problem, firstInvalidLine), evidence },
  );
}

function timeoutHint({ transport }: StartProblem, firstInvalidLine: string | undefined): string {
  if (transport !== "stdio") return "Raise startupTimeout if it is only slow; else see the server's own log.";
  return firstInvalidLine === undefined
    ? "Raise startupTimeout if it is only slow; stdout must carry nothing but MCP messages."
    : "Its stdout must carry nothing but MCP messages; logs belong on stderr.";
}

function protocolFailure(
  error: unknown,
  { connection, step, sdk, transport }: StartProblem,
  evidence: Evidence,
): McpvalsError {
  const message = error instanceof Error ? error.message : String(error);
  const other = otherVersion(error, step, sdk);
  const how =
    error instanceof sdk.ProtocolError && !isOurs(error.data)
      ? `answered ${step} with an error: ${message} (code ${error.code})`
      : other === undefined
        ? `answered ${step} with something unusable: ${message}`
        : `does not speak MCP ${modernVersion}: ${message}`;
  const { firstInvalidLine } = evidence;
  if (other !== undefined)
    return typed("server/protocol-error", `server "${connection.name}" ${how}`, {
      hint: other,
      evidence,
      cause: error,
    });
  return typed("server/protocol-error", `server "${connection.name}" ${how}`, {
    hint:
      transport !== "stdio" && /content type/i.test(message)
        ? "Check the url: MCP servers answer with application/json or text/event-stream."
        : firstInvalidLine === undefined
          ? "Compare the answer, recorded as mcp.message, with the MCP specification."
          : `Besides, ${noiseText(firstInvalidLine)}; stdout must carry nothing but MCP messages.`,
    evidence,
    cause: error,
  });
}

/** What to do about a server that speaks other versions of MCP than it was asked to; undefined when that is not known. */
function otherVersion(error: unknown, step: HandshakeStep, sdk: Sdk): string | undefined {
  if (step === "server/discover") {
    const { SdkError, SdkErrorCode } = sdk;
    const isOther =
      (error instanceof SdkError && error.code === SdkErrorCode.EraNegotiationFailed) ||
      error instanceof sdk.UnsupportedProtocolVersionError;
    return isOther ? "Leave `protocol` out, so that it is greeted with `initialize`." : undefined;
  }
  const isNewer = error instanceof sdk.ProtocolError && error.code === errorCodes.unsupportedVersion;
  return step === "initialize" && isNewer
    ? "It speaks newer versions of MCP only: leave `protocol` out, or write `protocol: modern`."
    : undefined;
}

/** Servers of older versions refuse in many ways to be greeted in the newer one. */
function inContext(failure: McpvalsError, step: HandshakeStep): McpvalsError {
  if (step !== "server/discover" || failure.code !== "server/http-status") return failure;
  const { hint = "", ...details } = failure.details;
  const asked = `It was asked to speak MCP ${modernVersion}: should it not, leave \`protocol\` out.`;
  return new McpvalsError(failure.code, failure.message, { ...details, hint: `${hint} ${asked}`.trim() });
}

/** Whether the data of an error says that it stands for an answer that could not be used or never came. */
function isOurs(data: unknown): boolean {
  return data === unusableAnswer || data instanceof HttpNoAnswer;
}

function noiseText(line: string): string {
  return `the first line on its stdout that is not an MCP message: ${JSON.stringify(shortened(line, 200))}`;
}

function typed(
  code: ErrorCode,
  message: string,
  { evidence, ...details }: { hint?: string; detail?: string; cause?: unknown; evidence: Evidence },
): McpvalsError {
  const detail = evidence.stderrTail ?? details.detail;
  return new McpvalsError(code, message, { ...details, ...(detail === undefined ? {} : { detail }) });
}
