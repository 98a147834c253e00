import type { Json, JsonObject } from "../../core/formats/model.ts";
import type { McpRequest } from "../../core/formats/step.ts";

/** A tool as the server listed it. */
export interface ToolDefinition {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema?: JsonObject;
}

/** The outcome of a request on an intact connection. */
export type CallOutcome =
  | { readonly kind: "result"; readonly result: JsonObject; readonly latencyMs: number }
  /** A JSON-RPC error, or an invalid result. */
  | {
      readonly kind: "error";
      readonly message: string;
      readonly code?: number;
      readonly data?: Json;
      /** The answer was unusable or missing: the message is not the server's. */
      readonly unusable?: true;
      readonly latencyMs: number;
    }
  /** Not answered in time; the request was cancelled. */
  | { readonly kind: "timeout"; readonly message: string; readonly latencyMs: number };

export interface CallOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Asks the server to report progress, which is recorded and changes no time limit. */
  readonly progress?: boolean;
}

/** What a server may ask of its client; absent members are not declared as capabilities. */
export interface ClientSide {
  /** Answers `sampling/createMessage`; a rejection becomes an error answer. */
  readonly sampling?: (params: JsonObject, signal: AbortSignal) => Promise<JsonObject>;
  /** Answers `elicitation/create`. */
  readonly elicitation?: (params: JsonObject, context: { readonly server: string }) => JsonObject;
  /** Answers `roots/list`. */
  readonly roots?: readonly { readonly uri: string; readonly name?: string }[];
}

/** The capabilities of a server. */
export interface ServerAbilities {
  readonly tools: boolean;
  readonly resources: boolean;
  readonly prompts: boolean;
}

/** A session with a healthy server. */
export interface ServerSession extends AsyncDisposable {
  readonly name: string;
  /** The last listing. */
  readonly tools: readonly ToolDefinition[];
  readonly abilities: ServerAbilities;
  /**
   * The tools of one name. They are listed again when the server said that they changed, after `expireTools`, or when none has
   * that name. Throws as `callTool` does, and McpvalsError `server/protocol-error` when there is no list.
   */
  toolsNamed(name: string, options: CallOptions): Promise<readonly ToolDefinition[]>;
  /** To be called when other clients have used the server, so that its tools may have changed. */
  expireTools(): void;
  /**
   * Calls a tool. Throws McpvalsError when the connection is lost (`server/exited`, `server/unreachable`,
   * `server/message-too-large`, …), and the signal's reason when it aborts.
   */
  callTool(tool: string, args: JsonObject, options: CallOptions): Promise<CallOutcome>;
  /** Reads a resource; the result has `contents`. Throws as `callTool` does. */
  readResource(uri: string, options: CallOptions): Promise<CallOutcome>;
  /** Gets a prompt; the result has `messages`. Arguments that are not strings are sent as JSON. Throws as `callTool` does. */
  getPrompt(name: string, args: JsonObject, options: CallOptions): Promise<CallOutcome>;
  /** All pages of `resources/list`, of `resources/templates/list` and of `prompts/list`, as `{resources}` and so on. Throws as `callTool` does. */
  list(kind: "resources" | "resourceTemplates" | "prompts", options: CallOptions): Promise<CallOutcome>;
  /** Aborts with an McpvalsError when the connection is lost without being stopped. */
  readonly lost: AbortSignal;
  /**
   * Settles when the server has answered a ping, and so has outlived its last answer, when it is lost, or after a timeout.
   * Never throws.
   */
  checkAlive(): Promise<void>;
  /** Ends the connection and the whole process tree; never throws. */
  stop(): Promise<void>;
}

/** Sends a request of any kind to a server. Throws as `ServerSession.callTool` does. */
export function sendRequest(
  session: ServerSession,
  request: McpRequest,
  options: CallOptions,
): Promise<CallOutcome> {
  switch (request.kind) {
    case "tool":
      return session.callTool(request.tool, request.args, options);
    case "resource":
      return session.readResource(request.uri, options);
    case "prompt":
      return session.getPrompt(request.prompt, request.args, options);
  }
}

export type Sdk = typeof import("@modelcontextprotocol/client");

/** Loads the SDK. The first time this blocks for a while, so concurrent work has to be started before. */
export function loadSdk(): Promise<Sdk> {
  return import("@modelcontextprotocol/client");
}
