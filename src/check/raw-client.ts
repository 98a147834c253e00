import { maxKeptBytes } from "../base/limits.ts";
import { McpvalsError, messageOf } from "../base/error.ts";
import { asObject, exact, isJsonObject, type Json, type JsonObject, withoutUndefined } from "../base/json.ts";
import { readJsonText } from "../base/read-json.ts";
import type { Emit } from "../model/event.ts";
import { weightOf } from "../trace/recorder.ts";
import { abortAfter, settlesWithin } from "../process/deadline.ts";
import { type Channel, type ServerHost, wantsModern } from "../servers/connections/host.ts";
import {
  answeredId,
  cameInArray,
  createReceiveLimits,
  kindOf,
  malformationOf,
  messageJson,
  wireMessage,
  type WireMessage,
} from "../servers/messages/json-rpc.ts";
import { errorCodes } from "../model/error-codes.ts";
import { legacyVersions, modernVersion } from "../model/mcp-versions.ts";
import type {
  Answer,
  Headers,
  ConnectOptions,
  ProbeClient,
  RequestOptions,
  StartedRequest,
} from "./prober.ts";

/** Memory for what servers send, in bytes; all clients of one trial share it. */
export interface Allowance {
  left: number;
}

export interface RawClientOptions {
  readonly emit: Emit;
  /** Gives ids that no other request of the trial has. */
  readonly nextId: () => number;
  readonly allowance: Allowance;
  /** Called when the connection is lost, with the reason where one is known. */
  readonly onLost: (reason: McpvalsError | undefined) => void;
  /** How long a request waits for its answer, in milliseconds. */
  readonly timeoutMs: number;
  /** How long the handshake waits, which may have to wait for the program to start. */
  readonly startMs: number;
  readonly signal: AbortSignal;
  readonly version: string;
  /** Its name on record. Absent: its ids tell its messages apart. */
  readonly client: string | undefined;
}

/** A probe's client on a channel of a server. Requests of the server get the answer that the method is unknown. */
export class RawClient implements ProbeClient {
  readonly #host: ServerHost;
  readonly #options: RawClientOptions;
  readonly #channel: Channel;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  readonly #problemOf: ReturnType<typeof createReceiveLimits>;
  /** What ends every request; undefined while the connection stands. */
  #lost: Extract<Answer, { readonly kind: "lost" }> | undefined;
  readonly #loss = Promise.withResolvers<void>();
  /** What every request of the modern era has in its `_meta`. */
  #meta: JsonObject | undefined;

  constructor(host: ServerHost, options: RawClientOptions) {
    this.#host = host;
    this.#options = options;
    this.#problemOf = createReceiveLimits(host.name);
    this.#channel = host.open({
      onMessage: (wire) => this.#receive(wire),
      onClosed: (reason) => this.#lose(reason ?? host.lost.reason),
      onResponse: (response) => options.emit({ type: "http.response", server: host.name, ...response }),
      onNoAnswer: ({ message }, failure) => {
        if ("id" in message && typeof message.id === "number")
          this.#waiting.get(message.id)?.({ kind: "refused", failure });
      },
    });
    host.lost.addEventListener("abort", () => this.#lose(host.lost.reason), { once: true });
    if (host.lost.aborted) this.#lose(host.lost.reason);
  }

  get sessionId(): string | undefined {
    return this.#channel.session;
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  async connect(
    version: string = legacyVersions[0],
    { exactly = false, headers, clientName = "mcpvals", asksBack = false }: ConnectOptions = {},
  ): Promise<Answer> {
    const clientInfo = { name: clientName, version: this.#options.version };
    const timeoutMs = this.#options.startMs;
    if (version === modernVersion) {
      this.#meta = {
        "io.modelcontextprotocol/protocolVersion": modernVersion,
        "io.modelcontextprotocol/clientInfo": clientInfo,
        "io.modelcontextprotocol/clientCapabilities": asksBack ? { sampling: {}, elicitation: {} } : {},
      };
      return this.request("server/discover", {}, { timeoutMs, headers });
    }
    const capabilities: JsonObject = asksBack ? { sampling: {}, elicitation: {} } : {};
    const params = { protocolVersion: version, capabilities, clientInfo };
    const answer = await this.request("initialize", params, { timeoutMs, headers });
    if (!exactly && wantsModern(refusalIn(answer)))
      return this.connect(modernVersion, { headers, clientName, asksBack });
    if (answer.kind === "result") await this.notify("notifications/initialized");
    return answer;
  }

  async request(method: string, params?: JsonObject, options?: RequestOptions): Promise<Answer> {
    return (await this.start(method, params, options)).answer;
  }

  async start(
    method: string,
    params?: JsonObject,
    {
      id = this.#options.nextId(),
      timeoutMs = this.#options.timeoutMs,
      headers,
      progress = false,
    }: RequestOptions = {},
  ): Promise<StartedRequest> {
    const waiting = this.#host.limiter?.pass(this.#options.signal);
    if (waiting !== undefined) await waiting;
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const deadline = abortAfter(timeoutMs, () => undefined, this.#options.signal);
    const give = (answer: Answer): void => {
      deadline[Symbol.dispose]();
      this.#waiting.delete(id);
      resolve(answer);
    };
    this.#waiting.set(id, give);
    deadline.signal.addEventListener("abort", () => give({ kind: "none" }), { once: true });
    const asked = progress ? { ...params, _meta: { progressToken: id } } : params;
    const message = { jsonrpc: "2.0", id, method, ...this.#withMeta(asked) } as const;
    if (this.#lost !== undefined) give(this.#lost);
    else if (!(await this.#send(wireMessage(message), headers))) give(this.#lost ?? { kind: "lost" });
    return { id, answer: promise };
  }

  async notify(method: string, params?: JsonObject): Promise<void> {
    await this.#send(wireMessage({ jsonrpc: "2.0", method, ...this.#withMeta(params) }));
  }

  async waitForLoss(ms: number): Promise<void> {
    if (this.#lost === undefined) await settlesWithin(this.#loss.promise, ms);
  }

  async sendText(text: string): Promise<void> {
    await this.#send({ message: { jsonrpc: "2.0", method: "mcpvals/malformed" }, text });
  }

  /** Returns whether it could be sent. */
  async #send(wire: WireMessage, headers?: Headers): Promise<boolean> {
    this.#options.signal.throwIfAborted();
    this.#record("client-to-server", wire);
    const { timeoutMs } = this.#options;
    // Where it fails the server is gone; what happened to it is on record.
    const sent = this.#channel.send(wire, { headers }).then(
      () => true,
      () => false,
    );
    // Over HTTP this waits for the response to a notification, and over stdio for a server that reads.
    return (await settlesWithin(sent, timeoutMs)) ? sent : true;
  }

  #withMeta(params: JsonObject | undefined): { readonly params?: JsonObject } {
    if (this.#meta === undefined) return withoutUndefined({ params });
    return {
      params: { ...params, _meta: { ...this.#meta, ...(asObject(params?.["_meta"]) as JsonObject) } },
    };
  }

  #receive(wire: WireMessage): void {
    if (this.#lost !== undefined) return;
    const { message, text } = wire;
    const { allowance } = this.#options;
    allowance.left -= weightOf(message, text);
    const problem = allowance.left < 0 ? tooMuch(this.#host.name) : this.#problemOf(message);
    if (problem !== undefined) {
      this.#lose(problem);
      return void this.#channel.close();
    }
    this.#record("server-to-client", wire);
    const id = answeredId(message);
    if (kindOf(message) === "request") return this.#refuse(messageJson(message));
    const give = typeof id === "number" ? this.#waiting.get(id) : undefined;
    const { result, error } = messageJson(message) as JsonObject;
    if (isJsonObject(result)) give?.({ kind: "result", result });
    else give?.({ kind: "error", error: isJsonObject(error) ? error : {} });
  }

  #refuse(message: Json): void {
    const { id, method } = asObject(message);
    const error = { code: errorCodes.methodNotFound, message: `mcpvals does not serve ${String(method)}` };
    const answer = method === "elicitation/create" ? { result: { action: "decline" } } : { error };
    this.#send(wireMessage({ jsonrpc: "2.0", id: id as number, ...answer })).catch(messageOf);
  }

  #record(direction: "client-to-server" | "server-to-client", wire: WireMessage): void {
    const { message, text } = wire;
    const malformed = malformationOf(message) ?? (cameInArray(message) ? inArray : undefined);
    this.#options.emit({
      type: "mcp.message",
      server: this.#host.name,
      ...exact({ client: this.#options.client }),
      direction,
      message: messageJson(message),
      ...(text === JSON.stringify(message) ? {} : { raw: text }),
      ...(malformed === undefined ? {} : { malformed }),
    });
  }

  #lose(reason: unknown): void {
    if (this.#lost !== undefined) return;
    const known = reason instanceof McpvalsError ? reason : undefined;
    this.#lost = { kind: "lost", ...withoutUndefined({ reason: known }) };
    for (const give of this.#waiting.values()) give(this.#lost);
    this.#loss.resolve();
    this.#options.onLost(known);
  }
}

/** What is wrong with the answer to one HTTP request that comes in an array; batches are no part of MCP since 2025-06-18. */
const inArray = "it is in an array, and the body of an HTTP response is one JSON object";

/** The message in which a request was refused; over HTTP it may be the body of an error. */
function refusalIn(answer: Answer): Json | undefined {
  if (answer.kind === "error") return { error: answer.error };
  return answer.kind === "refused" ? readJsonText(answer.failure.body).value : undefined;
}

/** The error for a server that sends more in one trial than is kept in memory. */
function tooMuch(server: string): McpvalsError {
  return new McpvalsError(
    "server/message-too-large",
    `server "${server}" sent more than ${maxKeptBytes / 1024 / 1024} MiB in one part of the check`,
    { hint: "Send less: shorter lists and results, and fewer notifications." },
  );
}
