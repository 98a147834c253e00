import type { Client } from "@modelcontextprotocol/client";
import type { ServerSpec } from "../../core/formats/model.ts";
import { AnswerGuard } from "./answer-guard.ts";
import { answerServer, capabilitiesOf } from "./client-side.ts";
import type { ServerConnection } from "../connection.ts";
import { EraSwitch, modernVersion } from "./era-switch.ts";
import { listTools } from "./list-tools.ts";
import type { Sdk } from "./sdk.ts";
import type { ClientSide, ServerAbilities, ToolDefinition } from "../session.ts";

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
  const { protocol, sdk } = options;
  const { transport } = connection;
  if (protocol !== undefined) return connect(connection, options, { protocol, transport });
  const either = new EraSwitch(transport, sdk);
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
  const guard = new AnswerGuard(transport, { onUnanswered: () => connection.unanswered?.() });
  await client.connect(guard, { signal, timeout: noTimeout });
  return client;
}
