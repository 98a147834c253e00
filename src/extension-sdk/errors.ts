import { inspect } from "node:util";

/**
 * To be thrown by an operation when it cannot know whether what was asked holds, since what it needs does not work: a
 * server that cannot be reached or that refuses, a program that is not installed. The host is answered with the JSON-RPC
 * error -32000 and this message, so that the step is an error and never a finding about the agent. Other errors than
 * OperationFailed mean the same; this one says that it was expected.
 */
export class EnvironmentError extends Error {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.name = "EnvironmentError";
  }
}

/** Codes of JSON-RPC, and `failed` of the extensions' protocol: it cannot be known whether what was asked holds. */
export const rpcCodes = {
  invalidJson: -32700,
  invalidRequest: -32600,
  unknownMethod: -32601,
  invalidParams: -32602,
  internal: -32603,
  failed: -32000,
} as const;

/** What a request is answered with instead of a result. */
export class RpcError extends Error {
  readonly code: number;

  constructor(kind: keyof typeof rpcCodes, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "RpcError";
    this.code = rpcCodes[kind];
  }
}

/** Most causes that are told. */
const mostCauses = 5;

/** The message of anything that was thrown, with the messages of its causes that it does not repeat. */
export function errorText(error: unknown): string {
  const texts: string[] = [];
  for (let next: unknown = error, left = mostCauses; next !== undefined && left > 0; left -= 1) {
    const text = next instanceof Error ? ownText(next) : typeof next === "string" ? next : inspect(next);
    if (!texts.some((before) => before.includes(text))) texts.push(text);
    next = next instanceof Error ? next.cause : undefined;
  }
  return texts.join(": ");
}

/** Some errors, such as those of a connection tried at several addresses, have their text in their parts only. */
function ownText(error: Error): string {
  if (error.message !== "") return error.message;
  const parts: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  return parts.map(errorText).join("; ") || error.name;
}
