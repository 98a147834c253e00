import type {
  JSONRPCMessage,
  MessageExtraInfo,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/client";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import { RelayTransport } from "../relay-transport.ts";
import type { Sdk } from "./sdk.ts";

/** The version of MCP that has no `initialize`. */
export const modernVersion = "2026-07-28";

/** JSON-RPC's code for a version of MCP that the server does not speak. */
export const unsupportedVersion = -32_022;

/**
 * Lets a second client take the transport over when the server has refused `initialize` because it speaks newer versions
 * of MCP only: the first client's closing of it does nothing then, and it is started once.
 */
export class EraSwitch extends RelayTransport {
  readonly #sdk: Sdk;
  #started: Promise<void> | undefined;
  #isOpen = false;

  constructor(inner: Transport, sdk: Sdk) {
    super(inner);
    this.#sdk = sdk;
  }

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

  override send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    const sending = super.send(message, options);
    const greets = "method" in message && message.method === "initialize";
    return greets ? sending.catch((error: unknown) => this.#explained(error)) : sending;
  }

  override close(): Promise<void> {
    return this.#isOpen ? Promise.resolve() : super.close();
  }

  protected override receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    if (wantsModern(message)) this.#isOpen = true;
    super.receive(message, extra);
  }

  /** Over HTTP the refusal is the body of an error. */
  #explained(error: unknown): never {
    const text = error instanceof this.#sdk.SdkHttpError ? error.data["text"] : undefined;
    if (typeof text === "string" && wantsModern(parsed(text))) this.#isOpen = true;
    throw error;
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
