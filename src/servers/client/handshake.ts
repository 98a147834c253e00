import type { Client, JSONRPCMessage, MessageExtraInfo, RequestId } from "@modelcontextprotocol/client";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, ServerSpec } from "../../core/formats/model.ts";
import { shortened } from "../../core/text/shortened.ts";
import type { ServerConnection } from "../connection.ts";
import type { RequestOptions } from "../hosts/channel-connection.ts";
import { malformationOf } from "../json-rpc.ts";
import { RelayTransport } from "../relay-transport.ts";
import type { HttpNoAnswer } from "../wire.ts";
import type { ClientSide, ServerAbilities, ToolDefinition } from "../session.ts";
import { answerServer, capabilitiesOf } from "./client-side.ts";
import { listTools } from "./list-tools.ts";
import type { Sdk } from "./sdk.ts";

/** What a server is asked before it counts as healthy. */
export type HandshakeStep = "initialize" | "server/discover" | "tools/list";

export interface HandshakeOptions {
  readonly sdk: Sdk;
  /** Version of mcpvals, as the server is told. */
  readonly version: string;
  readonly signal: AbortSignal;
  /** Called when a step begins. */
  readonly onStep: (step: HandshakeStep) => void;
  /** As in the server's spec. */
  readonly protocol?: ServerSpec["protocol"];
  /** What the server can ask of us; absent: nothing. */
  readonly clientSide?: ClientSide;
}

export interface Handshake {
  readonly client: Client;
  readonly tools: readonly ToolDefinition[];
  readonly abilities: ServerAbilities;
  readonly server: { readonly name: string; readonly version: string; readonly protocolVersion: string };
}

/** Longer than any time limit: time is limited by the signal alone. In milliseconds. */
const noTimeout = 2 ** 31 - 1;

/**
 * Speaks to a server for the first time: `initialize` or `server/discover`, and all pages of `tools/list` if it has tools
 * at all. Throws what the SDK throws; the caller knows better what has happened.
 */
export async function shakeHands(
  connection: ServerConnection,
  options: HandshakeOptions,
): Promise<Handshake> {
  const client = await greet(connection, options);
  options.onStep("tools/list");
  const { tools: hasTools, resources, prompts } = client.getServerCapabilities() ?? {};
  const request = { signal: options.signal, timeout: noTimeout };
  const tools = hasTools === undefined ? [] : await listTools(client, request);
  const abilities = {
    tools: hasTools !== undefined,
    resources: resources !== undefined,
    prompts: prompts !== undefined,
  };
  const { name = "", version = "" } = client.getServerVersion() ?? {};
  const protocolVersion = client.getNegotiatedProtocolVersion() ?? "";
  return { client, tools, abilities, server: { name, version, protocolVersion } };
}

/** Speaks the version that was asked for, or else the one that most servers speak and then the one that is left. */
async function greet(connection: ServerConnection, options: HandshakeOptions): Promise<Client> {
  const { protocol } = options;
  const { transport } = connection;
  if (protocol !== undefined) return connect(connection, options, { protocol, transport });
  const either = new EraSwitch(transport);
  try {
    return await connect(connection, options, { protocol: "legacy", transport: either });
  } catch (error) {
    if (!either.takeOver()) throw error;
  }
  return connect(connection, options, { protocol: "modern", transport: either });
}

async function connect(
  connection: ServerConnection,
  { sdk, version, signal, onStep, clientSide = {} }: HandshakeOptions,
  { protocol, transport }: Required<Pick<HandshakeOptions, "protocol">> & Pick<ServerConnection, "transport">,
): Promise<Client> {
  const isModern = protocol === "modern";
  const client = new sdk.Client(
    { name: "mcpvals", version },
    {
      capabilities: capabilitiesOf(clientSide),
      ...(isModern ? { versionNegotiation: { mode: { pin: modernVersion } } } : {}),
    },
  );
  answerServer(client, clientSide, connection.name);
  onStep(isModern ? "server/discover" : "initialize");
  await client.connect(new AnswerGuard(transport), { signal, timeout: noTimeout });
  return client;
}

/** The version of MCP that has no `initialize`. */
export const modernVersion = "2026-07-28";

/** JSON-RPC's code for a version of MCP that the server does not speak. */
export const unsupportedVersion = -32_022;

/**
 * Lets a second client take the transport over when the server has refused `initialize` because it speaks newer versions
 * of MCP only: the first client's closing of it does nothing then, and it is started once.
 */
class EraSwitch extends RelayTransport {
  #started: Promise<void> | undefined;
  #isOpen = false;

  /** Whether `initialize` was refused; from then on closing closes. */
  takeOver(): boolean {
    const refused = this.#isOpen;
    this.#isOpen = false;
    return refused;
  }

  override start(): Promise<void> {
    this.#started ??= super.start();
    return this.#started;
  }

  override send(message: JSONRPCMessage, options?: RequestOptions): Promise<void> {
    if (!("method" in message) || message.method !== "initialize") return super.send(message, options);
    return super.send(message, {
      ...options,
      onNoAnswer: (failure) => {
        // Over HTTP the refusal may be the body of an error.
        if (wantsModern(parsed(failure.body))) this.#isOpen = true;
        options?.onNoAnswer?.(failure);
      },
    });
  }

  override close(): Promise<void> {
    return this.#isOpen ? Promise.resolve() : super.close();
  }

  protected override receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    if (wantsModern(message)) this.#isOpen = true;
    super.receive(message, extra);
  }
}

/** Whether a message says that another version of MCP is needed, and does not rule out the one that we could speak. */
function wantsModern(message: unknown): boolean {
  const error = isRecord(message) ? message["error"] : undefined;
  if (!isRecord(error) || error["code"] !== unsupportedVersion) return false;
  const supported = isRecord(error["data"]) ? error["data"]["supported"] : undefined;
  return !Array.isArray(supported) || supported.includes(modernVersion);
}

function isRecord(value: unknown): value is Record<string, Json> {
  return isJsonObject(value as Json);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON, so not a message.
    return undefined;
  }
}

/** JSON-RPC's code for an error on the side that answers. */
const internalError = -32603;

/** The `data`, known by identity, of the errors that stand for an answer that could not be used or never came. */
export const unusableAnswer: Readonly<Record<string, never>> = Object.freeze({});

/**
 * Stands in the place of an error's `data` and holds the error as it came. The SDK makes errors of its own of some codes
 * and data, with another code and less data.
 */
export class OriginalError {
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };

  constructor(error: OriginalError["error"]) {
    this.error = error;
  }
}

/** What the client asks while it connects; it reads the errors itself. */
const handshakeMethods: ReadonlySet<string> = new Set(["initialize", "server/discover"]);

/** Requests whose answers are looked at; malformed answers to others are no more than odd. */
const evidenceMethods: ReadonlySet<string> = new Set(["tools/call", "resources/read", "prompts/get"]);

/**
 * Stands between the SDK's client and the recorded transport, and sees to it that every request is settled. The client
 * drops answers of the wrong shape, takes malformed ones for what it makes of them, and does not notice when an HTTP stream ends without the answer, so that the caller
 * would wait for the whole timeout. All of these become JSON-RPC errors, for the caller only; the record has what really came. Errors
 * of the server come to the caller with an {@link OriginalError}, but for those of the handshake, which the client reads.
 */
export class AnswerGuard extends RelayTransport {
  /** Methods of the requests that are not answered yet. */
  readonly #pending = new Map<RequestId, string>();

  override send(message: JSONRPCMessage, options?: RequestOptions): Promise<void> {
    if (!("method" in message && "id" in message)) return super.send(message, options);
    const { id, method } = message;
    this.#pending.set(id, method);
    return super.send(message, { ...options, onNoAnswer: (reason) => this.#noAnswer(id, reason) });
  }

  protected override receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    super.receive(this.#check(message), extra);
  }

  #check(message: JSONRPCMessage): JSONRPCMessage {
    if ("method" in message || message.id === undefined) return message;
    const method = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    const problem = problemOf(message, method);
    if (problem !== undefined) return failure(message.id, problem);
    if (!("error" in message) || method === undefined || handshakeMethods.has(method)) return message;
    return { ...message, error: { ...message.error, data: new OriginalError(message.error) } };
  }

  #noAnswer(id: RequestId, reason: HttpNoAnswer): void {
    if (this.#pending.delete(id)) super.receive(failure(id, reason.message, reason));
  }
}

/** What is wrong with an answer in the eyes of the SDK's client, which drops it without a word then. */
function problemOf(answer: JSONRPCMessage, method: string | undefined): string | undefined {
  const malformation = evidenceMethods.has(method ?? "") ? malformationOf(answer) : undefined;
  if (malformation !== undefined) return `the answer is malformed: ${malformation}`;
  const kind = "error" in answer && answer.error !== null ? "error" : "result";
  const value: unknown = kind in answer ? Reflect.get(answer, kind) : undefined;
  if (!isObject(value)) return `the ${kind} is not an object: ${excerpt(value)}`;
  const others = Object.keys(answer).filter((key) => !["jsonrpc", "id", kind].includes(key));
  if (others.length > 0)
    return `the answer has other keys than jsonrpc, id and ${kind}: ${others.join(", ")}`;
  if (kind === "result" && value["_meta"] !== undefined && !isObject(value["_meta"]))
    return `_meta is not an object: ${excerpt(value["_meta"])}`;
  if (kind === "error" && !(Number.isInteger(value["code"]) && typeof value["message"] === "string"))
    return `the error has no code and message: ${excerpt(value)}`;
  return undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function excerpt(value: unknown): string {
  return shortened(JSON.stringify(value) ?? "nothing", 200);
}

function failure(id: RequestId, message: string, data: unknown = unusableAnswer): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: internalError, message, data } };
}
