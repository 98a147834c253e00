import type {
  Client,
  ClientCapabilities,
  CreateMessageResult,
  ElicitResult,
  JSONRPCMessage,
  MessageExtraInfo,
} from "@modelcontextprotocol/client";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject, ServerSpec } from "../../core/formats/model.ts";
import { errorCodes, modernVersion } from "../messages/json-rpc.ts";
import { RelayTransport, type RequestOptions } from "../connections/transports.ts";
import type { ServerConnection } from "../connections/host.ts";
import { AnswerGuard } from "./answer-guard.ts";
import { listTools } from "./list-tools.ts";
import type { ClientSide, Sdk, ServerAbilities, ToolDefinition } from "./session.ts";

/** A request that a server has to answer before it counts as healthy. */
export type HandshakeStep = "initialize" | "server/discover" | "tools/list";

export interface HandshakeOptions {
  readonly sdk: Sdk;
  /** Version of mcpvals, for `clientInfo`. */
  readonly version: string;
  readonly signal: AbortSignal;
  /** Called when a step begins. */
  readonly onStep: (step: HandshakeStep) => void;
  /** As in the server's spec. */
  readonly protocol?: ServerSpec["protocol"];
  /** What the server can ask of the client; absent: nothing. */
  readonly clientSide?: ClientSide;
}

export interface Handshake {
  readonly client: Client;
  readonly tools: readonly ToolDefinition[];
  readonly abilities: ServerAbilities;
  readonly server: { readonly name: string; readonly version: string; readonly protocolVersion: string };
}

/** The longest timeout of the SDK, in milliseconds: the signal limits the time. */
const noTimeout = 2 ** 31 - 1;

/**
 * Connects a client: `initialize` or `server/discover`, and all pages of `tools/list` if the server has tools. Throws what the
 * SDK throws.
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

/** Uses the era of the spec, or else `initialize` first and the modern era where the server requires it. */
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

/**
 * Lets a second client use the transport when the server has refused `initialize` because it speaks only newer versions of MCP:
 * the first client's `close` then does nothing, and the transport is started once.
 */
class EraSwitch extends RelayTransport {
  #started: Promise<void> | undefined;
  #isOpen = false;

  /** Whether `initialize` was refused; from then on `close` closes. */
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

/** Whether a message says that another version of MCP is needed, which may be the modern one. */
function wantsModern(message: unknown): boolean {
  const error = isRecord(message) ? message["error"] : undefined;
  if (!isRecord(error) || error["code"] !== errorCodes.unsupportedVersion) return false;
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
    return undefined; // not JSON
  }
}

/** The capabilities of a client: what it can answer. */
function capabilitiesOf({ sampling, elicitation, roots }: ClientSide): ClientCapabilities {
  return {
    ...(sampling === undefined ? {} : { sampling: {} }),
    ...(elicitation === undefined ? {} : { elicitation: { form: {} } }),
    ...(roots === undefined ? {} : { roots: {} }),
  };
}

/**
 * Sets the handlers for requests of the server; to be called before the client connects. Since 2026-07-28 servers answer a call
 * with `input_required` instead, which the SDK's client fulfils with the same handlers. An error of a handler becomes a JSON-RPC
 * error, and since 2026-07-28 ends the call. Elicitation with `mode: "url"` is not declared: the SDK refuses it with -32602.
 */
function answerServer(client: Client, { sampling, elicitation, roots }: ClientSide, server: string): void {
  if (sampling !== undefined)
    client.setRequestHandler(
      "sampling/createMessage",
      async ({ params }, { mcpReq }) =>
        // The SDK's client validates the result of a handler.
        (await sampling(asJson(params), mcpReq.signal)) as unknown as CreateMessageResult,
    );
  if (elicitation !== undefined)
    client.setRequestHandler(
      "elicitation/create",
      async ({ params }) => elicitation(asJson(params), { server }) as unknown as ElicitResult,
    );
  if (roots !== undefined)
    client.setRequestHandler("roots/list", () => ({ roots: roots.map((root) => ({ ...root })) }));
}

function asJson(params: object): JsonObject {
  return params as JsonObject;
}
