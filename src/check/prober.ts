import type { McpvalsError } from "../base/error.ts";
import type { JsonObject } from "../base/json.ts";
import type { CheckSpec, ConformanceSuite, ProbeName } from "../model/check.ts";
import type { ServerSpec } from "../model/server.ts";
import type { EventBody, EventOf } from "../model/event.ts";

/**
 * What probes work with. Everything that a server is sent and sends is recorded; a probe judges nothing. This is apart from what does it
 * (`server-prober.ts`), so that a probe stands beside its rules, which are loaded where no server is started.
 */
export interface Prober {
  readonly server: string;
  readonly check: CheckSpec;
  /** Whether the server is at an address, and was declared with headers or another way to log in. */
  readonly hasCredentials: boolean;
  /** Whether a header of these has a token. */
  readonly hasToken: boolean;
  /** Starts the server once more, or prepares for reaching it. Throws McpvalsError when that fails. */
  start(options?: StartOptions): Promise<ProbedServer>;
  /** Starts the server and begins a session. Ends the probe where there is none; throws as `start`. */
  connect(options?: ConnectOptions): Promise<Session>;
  /**
   * The result of a handshake. Ends the probe where there is none; throws McpvalsError for an address at which no server can be
   * reached, unless one was before.
   */
  hello(answer: Answer): JsonObject;
  /** All pages of a list, as far as the server gives them. Pages that do not end are cut off. */
  list(client: ProbeClient, method: string): Promise<void>;
  /** All pages of every list that the server declares. */
  listAll(session: Session): Promise<void>;
  /** Runs a scenario of the official conformance suite against a server that was just started. Undefined: it did not end in time. */
  runScenario(suite: ConformanceSuite, scenario: string): Promise<readonly ConformanceCheck[] | undefined>;
  /** Stops everything, and puts what a confined server can touch where it was at first. */
  plant(): Promise<void>;
  /** Asks a server at an address what it allows to the pages of a website, as a browser does, and records the answer. */
  preflight(origin: string): Promise<void>;
  /** An address of this machine at which mcpvals listens; requests that come there are recorded. */
  listen(): Promise<string>;
  /**
   * Does something for each item, for several at the same time if the server can run more than once: each with a prober of its own, whose
   * servers run among planted files of their own, and whose events are marked with the number of the item, from 1. No further item is
   * begun once `work` has given false, or has thrown.
   */
  sideBySide<T>(
    items: readonly T[],
    work: (prober: Prober, item: T, index: number) => Promise<boolean>,
  ): Promise<void>;
  /** Records a fact that no message shows. */
  record(event: Extract<EventBody, { readonly type: "conformance.checked" | "http.session" }>): void;
  /**
   * Marks what happens during `work` as a probe. Returns what `work` gives; undefined when the server was lost, or did not answer
   * something that the probe needs. Throws the signal's reason, and what is not the server's fault.
   */
  probe<T>(
    name: ProbeName,
    work: () => Promise<T>,
    about?: Pick<EventOf<"probe.started">, "call" | "read">,
  ): Promise<T | undefined>;
}

/** `none`: without the headers and tokens that a server was declared with; `wrong`: with a token that nobody gave out. */
export type Credentials = "own" | "none" | "wrong";

/** How a server is started or reached. */
export interface StartOptions {
  /** Except with its own, a program that serves at an address has to run already. */
  readonly credentials?: Credentials;
}

/** A server that was started, or that can be reached. */
export interface ProbedServer {
  readonly transport: ServerSpec["transport"];
  /** One more client, which has sent nothing. `client`: its name on record, which clients need that use the same ids. */
  open(client?: string): ProbeClient;
  /** Never throws. `stdinMs`, `settleMs`: how long the program, and then what it started, may take to end by itself. */
  stop(options?: { readonly stdinMs?: number; readonly settleMs?: number }): Promise<void>;
}

/** A server, and a client of it after the handshake. */
export interface Session {
  readonly server: ProbedServer;
  readonly client: ProbeClient;
  /** What the server says that it offers. */
  readonly capabilities: JsonObject;
}

export interface ConnectOptions extends StartOptions {
  /** The modern era is not tried where another version is refused. */
  readonly exactly?: boolean;
  readonly headers?: Headers | undefined;
  /** Whether it declares sampling and elicitation, so that the server asks for them. It refuses what is asked. */
  readonly asksBack?: boolean;
  /** As which client it introduces itself. Absent: as mcpvals. */
  readonly clientName?: string;
}

/** HTTP headers besides those that every request has. */
export type Headers = Readonly<Record<string, string>>;

/** A client that sends whatever a probe wants, also what is against the protocol. Methods throw nothing but the signal's reason. */
export interface ProbeClient {
  /** The id that a server at an address gave its session. */
  readonly sessionId: string | undefined;
  /** Whether the server has ended the connection, or has sent more than is read. */
  readonly isLost: boolean;
  /**
   * Begins a session: `initialize` with a version, or where the server wants the modern era `server/discover`. Gives the answer that
   * decides; after a result the client is ready.
   */
  connect(version?: string, options?: ConnectOptions): Promise<Answer>;
  /** Sends a request and waits for its answer. */
  request(method: string, params?: JsonObject, options?: RequestOptions): Promise<Answer>;
  /** Sends a request; its answer comes later. */
  start(method: string, params?: JsonObject, options?: RequestOptions): Promise<StartedRequest>;
  notify(method: string, params?: JsonObject): Promise<void>;
  /** Waits until the connection is lost, at most for some milliseconds. */
  waitForLoss(ms: number): Promise<void>;
  /** Sends a text that is not a message; it is recorded as the notification `mcpvals/malformed`. */
  sendText(text: string): Promise<void>;
}

export interface RequestOptions {
  /** Absent: one that no other request of the trial has. */
  readonly id?: number;
  /** How long it waits for its answer, instead of as long as the client waits. */
  readonly timeoutMs?: number;
  readonly headers?: Headers | undefined;
  /** Whether the request has a `progressToken`, so that the server may tell how far it is. */
  readonly progress?: boolean;
}

export interface StartedRequest {
  readonly id: number;
  readonly answer: Promise<Answer>;
}

/** How a request ended. */
export type Answer =
  | { readonly kind: "result"; readonly result: JsonObject }
  | { readonly kind: "error"; readonly error: JsonObject }
  /** The HTTP response has no answer in it. */
  | { readonly kind: "refused"; readonly failure: HttpRefusal }
  /** Nothing came in time. */
  | { readonly kind: "none" }
  /** The connection ended first. */
  | { readonly kind: "lost"; readonly reason?: McpvalsError };

/** What came in place of an answer. */
export interface HttpRefusal {
  readonly message: string;
  readonly status: number;
  readonly body: string;
  /** The error for a status that is one. */
  readonly statusError: McpvalsError | undefined;
  /** Whether it says that it succeeded, with a content that no MCP server sends. */
  readonly isForeign: boolean;
}

/** HTTP errors that say nothing about the server: it is elsewhere, or somebody else answers. */
export const notTheServer: readonly number[] = [
  301, 302, 303, 307, 308, 401, 403, 404, 405, 407, 410, 429, 502, 503, 504,
];

/** Whether the server answered at all. */
export function isAnswer({ kind }: Answer): boolean {
  return kind !== "none" && kind !== "lost";
}

/** What the conformance suite says of a requirement. */
export interface ConformanceCheck {
  readonly id: string;
  readonly description: string;
  readonly status: string;
  readonly message?: string;
  /** Where the requirement is written. */
  readonly sources: readonly string[];
}

/** How long a server that has not answered a request may take for a ping, in milliseconds. */
const pingMs = 2000;

/** Makes a request that may take long; without an answer in time it is cancelled, and a ping shows whether the server goes on. */
export async function requestOrPing(
  client: ProbeClient,
  method: string,
  params: JsonObject,
): Promise<{ readonly answer: Answer; readonly answersPing: boolean }> {
  const { id, answer: coming } = await client.start(method, params, { progress: true });
  const answer = await coming;
  if (answer.kind !== "none") return { answer, answersPing: true };
  await client.notify("notifications/cancelled", { requestId: id, reason: "no answer in time" });
  const ping = await client.request("ping", undefined, { timeoutMs: pingMs });
  return { answer, answersPing: isAnswer(ping) };
}
