import type { Json, JsonObject } from "../../core/formats/model.ts";
import type { McpRequest } from "../../core/formats/step.ts";

/** A tool as `tools/list` gave it. */
export interface ToolDefinition {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema?: JsonObject;
}

/** How a tool call, or another request, ended, as long as the connection held. */
export type CallOutcome =
  | { readonly kind: "result"; readonly result: JsonObject; readonly latencyMs: number }
  /** A JSON-RPC error, or a result that is not of the request's kind. */
  | {
      readonly kind: "error";
      readonly message: string;
      readonly code?: number;
      readonly data?: Json;
      /** The server's answer could not be used, or never came: the words are ours and prove nothing about the server's. */
      readonly unusable?: true;
      readonly latencyMs: number;
    }
  /** Not answered in time; the server was told to cancel. */
  | { readonly kind: "timeout"; readonly message: string; readonly latencyMs: number };

export interface CallOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Asks the server to report progress, which goes on record and changes no limit. */
  readonly progress?: boolean;
}

/** What a server may ask of its client; what is absent is not declared, so that servers know. */
export interface ClientSide {
  /** Answers `sampling/createMessage`: its params to its result. Rejecting answers with an error. */
  readonly sampling?: (params: JsonObject, signal: AbortSignal) => Promise<JsonObject>;
  /** Answers `elicitation/create`. */
  readonly elicitation?: (params: JsonObject, context: { readonly server: string }) => JsonObject;
  /** Answers `roots/list`. */
  readonly roots?: readonly { readonly uri: string; readonly name?: string }[];
}

/** What a server says that it can do, as its handshake gave it. */
export interface ServerAbilities {
  readonly tools: boolean;
  readonly resources: boolean;
  readonly prompts: boolean;
}

/** A started, healthy server, for one trial. */
export interface ServerSession extends AsyncDisposable {
  readonly name: string;
  /** As they were listed last. */
  readonly tools: readonly ToolDefinition[];
  readonly abilities: ServerAbilities;
  /**
   * The tools of one name, as the server lists them now: it is asked again when it said that they changed, when others
   * have talked to it since, or when it listed none of that name. Throws as `callTool` does, and McpvalsError
   * `server/protocol-error` when it gives no list.
   */
  toolsNamed(name: string, options: CallOptions): Promise<readonly ToolDefinition[]>;
  /** To be told that others have talked to the server, so that its tools may have changed unheard. */
  expireTools(): void;
  /**
   * Calls a tool. Throws McpvalsError when the connection is lost (`server/exited`, `server/unreachable`,
   * `server/message-too-large`, …), and the signal's reason when it aborts.
   */
  callTool(tool: string, args: JsonObject, options: CallOptions): Promise<CallOutcome>;
  /** Reads a resource; the result has `contents`. Throws as `callTool` does. */
  readResource(uri: string, options: CallOptions): Promise<CallOutcome>;
  /** Gets a prompt; the result has `messages`. Arguments that are no texts are sent as JSON. Throws as `callTool` does. */
  getPrompt(name: string, args: JsonObject, options: CallOptions): Promise<CallOutcome>;
  /** All pages of `resources/list`, of `resources/templates/list` and of `prompts/list`, as `{resources}` and so on. Throws as `callTool` does. */
  list(kind: "resources" | "resourceTemplates" | "prompts", options: CallOptions): Promise<CallOutcome>;
  /** Aborts with an McpvalsError when the connection is lost without our asking. */
  readonly lost: AbortSignal;
  /**
   * Settles when the server has answered something new, so that it outlived its last answer, when it is lost, or when that
   * takes too long, which proves nothing. Never throws.
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

/** The MCP SDK's client side. */
export type Sdk = typeof import("@modelcontextprotocol/client");

/** Loads the SDK. The first time this blocks for a while, so whatever can go on meanwhile has to be started before. */
export function loadSdk(): Promise<Sdk> {
  return import("@modelcontextprotocol/client");
}
