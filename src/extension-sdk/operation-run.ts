import type { LogParams, OperationContext } from "../core/formats/extension/protocol.ts";
import type { Json, JsonObject } from "../core/formats/json-value.ts";

export type LogLevel = LogParams["level"];

/** Tells the host something that goes into the record of the trial; it never decides anything. */
export type Log = (level: LogLevel, message: string, data?: JsonObject) => void;

/** What `open` of an extension is given besides its config. */
export interface StartContext {
  readonly log: Log;
  /** Aborts when the host has gone or asks the program to end. */
  readonly signal: AbortSignal;
}

/** What an operation is given besides its arguments; `R` is what `open` of the extension made. */
export interface OperationRun<R> extends OperationContext {
  readonly resources: R;
  /** Aborts when the time is up, the host has gone, or it asks the program to end. Hand it to everything that waits. */
  readonly signal: AbortSignal;
  /** `timeout` in milliseconds. */
  readonly timeoutMs: number;
  readonly log: Log;
}

/** How an operation ended. Nothing at all means success. */
export interface OperationOutcome {
  /** Default: true. False: what was asked did not hold, or was not done. */
  readonly success?: boolean;
  readonly message?: string;
  /** What later steps may use. */
  readonly outputs?: Readonly<Record<string, Json>>;
}

/**
 * To be thrown by an operation when what was asked did not hold: `success: false` with this message, which is a finding
 * about the agent. Any other error that it throws is answered with the JSON-RPC error -32603 and its text: the step is an
 * error, and no finding.
 */
export class OperationFailed extends Error {
  readonly outputs: Readonly<Record<string, Json>> | undefined;

  constructor(
    message: string,
    options: { readonly outputs?: Readonly<Record<string, Json>>; readonly cause?: unknown } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.name = "OperationFailed";
    this.outputs = options.outputs;
  }
}
