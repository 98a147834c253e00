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
