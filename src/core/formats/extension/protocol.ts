import type { Json, JsonObject } from "../json-value.ts";
import type { ExtensionPhase } from "./manifest.ts";

/** Params of `initialize`. */
export interface InitializeParams {
  readonly protocolVersion: string;
  readonly config?: JsonObject;
}

/** Params of `execute`. */
export interface ExecuteParams {
  readonly operation: string;
  readonly args: JsonObject;
  readonly context: OperationContext;
}

/** What an operation is told besides its arguments. */
export interface OperationContext {
  /** Absolute path of the task's folder. */
  readonly workdir: string;
  /** Absolute path of the trial's own folder. */
  readonly workspace: string;
  readonly phase: ExtensionPhase;
  /** The variables that the task declares. */
  readonly env: Readonly<Record<string, string>>;
  /** How long the host waits, as a Go duration: `90s`, `1500ms`. */
  readonly timeout: string;
  /** What the agent was told and said last; absent before it has run. */
  readonly agent?: { readonly prompt: string; readonly output: string };
}

/** Result of `execute`, and what a one-shot program writes. */
export interface OperationResult {
  /** False: what was asked did not hold, or was not done. */
  readonly success: boolean;
  readonly message?: string;
  readonly error?: string;
  readonly outputs?: Readonly<Record<string, Json>>;
}

/** Params of the notification `log`. */
export interface LogParams {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly data?: JsonObject;
}
