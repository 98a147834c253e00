import { EnvironmentError, type Json, OperationFailed } from "../../../src/extension-sdk/index.ts";
import { isObject, objectsOf, textOf } from "./json.ts";

/** The server answered that what was asked cannot be: not there, there already, not valid. */
export class ApiProblem extends OperationFailed {
  readonly status: number;
  /** As the server calls it, such as `NotFound`. */
  readonly reason: string | undefined;

  constructor(message: string, { status, reason }: { status: number; reason: string | undefined }) {
    super(message);
    this.name = "ApiProblem";
    this.status = status;
    this.reason = reason;
  }
}

/** An answer that is no success. */
export interface FailedAnswer {
  /** What was tried, such as `GET /api/v1/pods`. */
  readonly what: string;
  readonly server: string;
  readonly status: number;
  /** The parsed body; undefined when it is no JSON. */
  readonly body: Json | undefined;
  readonly text: string;
}

/**
 * The error for an answer: an ApiProblem when it says something of what was asked, an EnvironmentError when it only says
 * that the server, or the right to ask, is missing.
 */
export function problemOf({ what, server, status, body, text }: FailedAnswer): Error {
  const told = isObject(body) ? textOf(body["message"]) : undefined;
  const message = told === undefined || told === "" ? text.trim().slice(0, 300) : told;
  if (saysNothing(status)) {
    return new EnvironmentError(
      `${hintOf(status)} ${server}: ${what} answered ${status}: ${message || "no text"}`,
    );
  }
  const reason = isObject(body) ? textOf(body["reason"]) : undefined;
  return new ApiProblem(message === "" ? `${what} answered ${status}` : message, { status, reason });
}

/** Whether an error is the server's answer that the object is not there. A missing namespace is not meant. */
export function isNotFound(error: unknown): error is ApiProblem {
  return error instanceof ApiProblem && error.status === 404;
}

/** The causes that a Status names, as texts. */
export function causesOf(status: Json | undefined): readonly { reason: string; message: string }[] {
  const details = isObject(status) && isObject(status["details"]) ? status["details"] : {};
  return objectsOf(details["causes"]).map((cause) => ({
    reason: textOf(cause["reason"]) ?? "",
    message: textOf(cause["message"]) ?? "",
  }));
}

function saysNothing(status: number): boolean {
  return status < 400 || status >= 500 || [401, 403, 407, 408, 429].includes(status);
}

function hintOf(status: number): string {
  if (status === 401) return "the kubeconfig's user is not known to";
  if (status === 403) return "the kubeconfig's user may not do this at";
  return "no usable answer from";
}
