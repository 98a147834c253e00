import type { Client } from "@modelcontextprotocol/client";
import { AnswerGuard } from "./answer-guard.ts";
import type { ServerConnection } from "../connection.ts";
import { listTools } from "./list-tools.ts";
import type { Sdk } from "./sdk.ts";
import type { ServerAbilities, ToolDefinition } from "../session.ts";

/** What a server is asked before it counts as healthy. */
export type HandshakeStep = "initialize" | "tools/list";

export interface HandshakeOptions {
  readonly sdk: Sdk;
  /** Version of mcpvals, as the server is told. */
  readonly version: string;
  readonly signal: AbortSignal;
  /** Called when a step begins. */
  readonly onStep: (step: HandshakeStep) => void;
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
 * Speaks to a server for the first time: `initialize`, and all pages of `tools/list` if it has tools at all. Throws what
 * the SDK throws; the caller knows better what has happened.
 */
export async function shakeHands(
  connection: ServerConnection,
  { sdk, version, signal, onStep }: HandshakeOptions,
): Promise<Handshake> {
  const client = new sdk.Client({ name: "mcpvals", version }, { capabilities: {} });
  const options = { signal, timeout: noTimeout };
  onStep("initialize");
  const guard = new AnswerGuard(connection.transport, { onUnanswered: () => connection.unanswered?.() });
  await client.connect(guard, options);
  onStep("tools/list");
  const { tools: hasTools, resources, prompts } = client.getServerCapabilities() ?? {};
  const tools = hasTools === undefined ? [] : await listTools(client, options);
  const abilities = { resources: resources !== undefined, prompts: prompts !== undefined };
  const { name = "", version: serverVersion = "" } = client.getServerVersion() ?? {};
  const protocolVersion = client.getNegotiatedProtocolVersion() ?? "";
  return { client, tools, abilities, server: { name, version: serverVersion, protocolVersion } };
}
