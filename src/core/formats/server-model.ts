import type { Json, JsonObject } from "./json.ts";
import type { SandboxSpec } from "./sandbox.ts";

/** How long one started server serves; see docs/architecture.md, "Servers". */
export type ServerLifetime = "per_trial" | "per_task" | "per_run";

interface ServerBase {
  /** Longest that handshake and `tools/list` may take together. */
  readonly startupTimeoutMs: number;
  /** Largest single message accepted from the server, in bytes. */
  readonly maxMessageBytes: number;
  /** Absent: `per_trial` for programs and mocks, `per_run` for servers with an address. */
  readonly lifetime?: ServerLifetime;
  /**
   * true: when it cannot start, nothing runs at all. false: a trial goes on without it. Absent: a trial that cannot start
   * it is an error.
   */
  readonly required?: boolean;
  /** Tools that agents see and may call, by name or glob; absent: all. */
  readonly tools?: readonly string[];
  readonly rateLimit?: RateLimit;
  /** What goes wrong on purpose between agents and this server. */
  readonly faults?: readonly Fault[];
  /** `legacy` begins with `initialize`, `modern` is 2026-07-28; absent: `legacy`, then `modern` where that is refused. */
  readonly protocol?: "legacy" | "modern";
  /** Whether what the server writes to stderr is recorded; absent: yes. */
  readonly captureStderr?: boolean;
}

/** At most `requests` of the client's requests in any `perMs`; those over it wait. */
export interface RateLimit {
  readonly requests: number;
  readonly perMs: number;
}

/** Something that goes wrong on purpose with a request of an agent. */
export interface Fault {
  /**
   * `delay`: the request is held for `ms`. `drop`: it is never answered. `error`: we answer with a JSON-RPC error.
   * `truncate`: the texts of the result are cut to `bytes`. `disconnect`: the connection is cut.
   */
  readonly kind: "delay" | "drop" | "error" | "truncate" | "disconnect";
  /** Name or glob of the tools that it faultTarget; absent: any. Only for `tools/call`. */
  readonly tool?: string;
  /** Method that it applies to. Default: `tools/call`. */
  readonly method?: string;
  /** 0 to 1. */
  readonly probability: number;
  /** How often it may happen in one trial; absent: without end. */
  readonly times?: number;
  readonly ms?: number;
  readonly bytes?: number;
  readonly code?: number;
  readonly message?: string;
}

export interface StdioServerSpec extends ServerBase {
  readonly transport: "stdio";
  readonly command: string;
  readonly args: readonly string[];
  /** The complete environment of the process. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path. */
  readonly cwd: string;
  /** Absent: it is not confined. */
  readonly sandbox?: SandboxSpec;
}

export interface HttpServerSpec extends ServerBase {
  /** `shttp` is Streamable HTTP; `sse` is the older HTTP+SSE transport. */
  readonly transport: "shttp" | "sse";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly auth?: OAuthSpec;
}

/** How to get an access token by OAuth 2.1. */
export type OAuthSpec =
  | {
      readonly kind: "client-credentials";
      readonly clientId: string;
      readonly clientSecret: string;
      readonly scope?: string;
      /** The authorization server that may see the secret; absent: none. */
      readonly issuer?: string;
    }
  /** Tokens that were got before; refreshed ones are written back to the file. */
  | {
      readonly kind: "stored";
      /** Absolute path of a JSON file with `access_token`, and `refresh_token` where there is one. */
      readonly file: string;
      readonly clientId?: string;
      readonly clientSecret?: string;
      /** The authorization server that may see the refresh token; absent: the file's `issuer`, or none. */
      readonly issuer?: string;
    };

/** A server that is nothing but written answers. */
export interface MockServerSpec extends ServerBase {
  readonly transport: "mock";
  readonly mock: MockDefinition;
}

/** What a mock server offers and answers. */
export interface MockDefinition {
  readonly instructions?: string;
  readonly tools: Readonly<Record<string, MockTool>>;
  readonly resources: readonly MockResource[];
  readonly prompts: readonly MockPrompt[];
  /** Values that responses can look at and change; each server process begins with these. */
  readonly state: Readonly<Record<string, Json>>;
}

export interface MockTool {
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema?: JsonObject;
  /** The first that fits answers; when none does, the call is an error of the tool. */
  readonly responses: readonly MockResponse[];
}

export interface MockResponse {
  /** The arguments, exactly and all of them. */
  readonly match?: JsonObject;
  /** A JSON Schema that the arguments satisfy. */
  readonly matchSchema?: JsonObject;
  /** Regular expressions (RE2) by argument. */
  readonly matchRegex?: Readonly<Record<string, string>>;
  /** Values that the state must have. */
  readonly when?: Readonly<Record<string, Json>>;
  /** Values that the state has from then on. */
  readonly set?: Readonly<Record<string, Json>>;
  readonly latencyMs?: number;
  readonly answer:
    | { readonly kind: "return"; readonly value: Json }
    /** An error of the tool (`isError`). */
    | { readonly kind: "error"; readonly message: string }
    /** A JSON-RPC error. */
    | { readonly kind: "protocol-error"; readonly code: number; readonly message: string }
    /** This text in the place of the whole answer; `{id}` is the request's id as JSON. */
    | { readonly kind: "malformed"; readonly text: string }
    | { readonly kind: "silence" };
}

export interface MockResource {
  readonly uri: string;
  readonly name: string;
  readonly description?: string;
  readonly mimeType?: string;
  readonly text: string;
}

export interface MockPrompt {
  readonly name: string;
  readonly description?: string;
  readonly arguments: readonly {
    readonly name: string;
    readonly required: boolean;
    readonly description?: string;
  }[];
  /** `{NAME}` is replaced by the argument. */
  readonly messages: readonly { readonly role: "user" | "assistant"; readonly text: string }[];
}

export type ServerSpec = StdioServerSpec | HttpServerSpec | MockServerSpec;
