import type {
  JSONRPCMessage,
  MessageExtraInfo,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/client";
import { McpvalsError } from "../core/errors/error.ts";
import { type JsonExcess, mostMemory } from "../core/formats/read-json.ts";
import type { Emit } from "../core/trace/events.ts";
import { deepestMessage, isTooDeep, malformationOf, messageJson } from "./json-rpc.ts";
import { RelayTransport } from "./relay-transport.ts";

export interface RecordingOptions {
  readonly server: string;
  readonly emit: Emit;
  /** The text of a received message, where writing the message again would not give the same text. */
  readonly rawText?: (message: JSONRPCMessage) => string | undefined;
  /** Called for a message that is nested too deeply, or one too many; it is neither recorded nor passed on. */
  readonly onBroken: (error: McpvalsError) => void;
}

/**
 * Records every message of a transport, in both directions, as `mcp.message` before it is passed on untouched. It knows
 * nothing of methods or versions, so that whatever two sides say to each other passes through.
 */
export class RecordingTransport extends RelayTransport {
  readonly #options: RecordingOptions;
  #unasked = 0;

  constructor(inner: Transport, options: RecordingOptions) {
    super(inner);
    this.#options = options;
  }

  override send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    const { server, emit } = this.#options;
    emit({ type: "mcp.message", server, direction: "client-to-server", message: messageJson(message) });
    return super.send(message, options);
  }

  protected override receive(received: JSONRPCMessage, extra?: MessageExtraInfo): void {
    const { server, emit, rawText, onBroken } = this.#options;
    this.#unasked += unaskedBy(received);
    const problem = isTooDeep(received) ? nestedTooDeeply(server) : this.#flooding();
    if (problem !== undefined) {
      onBroken(problem);
      return;
    }
    const message = messageJson(received);
    const raw = rawText?.(received);
    const malformed = malformationOf(received);
    const direction = "server-to-client";
    emit({
      type: "mcp.message",
      server,
      direction,
      message,
      ...(raw === undefined ? {} : { raw }),
      ...(malformed === undefined ? {} : { malformed }),
    });
    super.receive(received, extra);
  }

  #flooding(): McpvalsError | undefined {
    return this.#unasked <= mostUnasked ? undefined : tooManyUnasked(this.#options.server);
  }
}

/** Messages that are no answers to ours and that one connection may carry, so that a flood cannot fill the memory. */
export const mostUnasked = 100_000;
/** What a request counts, as each keeps an answer on its way that the server need not read. */
const requestWeight = 10;

/** What a message counts towards {@link mostUnasked}. */
export function unaskedBy(message: JSONRPCMessage): number {
  if (!("method" in message)) return 0;
  return "id" in message ? requestWeight : 1;
}

/** The error for a server that sent more than {@link mostUnasked}. */
export function tooManyUnasked(server: string): McpvalsError {
  return new McpvalsError(
    "server/protocol-error",
    `server "${server}" sent more than ${mostUnasked} notifications, or ${mostUnasked / requestWeight} requests, in one trial`,
    { hint: "Is it logging in a loop? Every message is kept in memory and in the journal." },
  );
}

/** The error for a message that is better not parsed. */
export function excessive(server: string, excess: JsonExcess): McpvalsError {
  if (excess === "deep") return nestedTooDeeply(server);
  const most = `${mostMemory / 1024 / 1024} MiB`;
  return new McpvalsError(
    "server/message-too-large",
    `server "${server}" sent a message of so many values that it would take more than ${most} of memory`,
    { hint: "Answer with less: with fewer lists, objects and numbers." },
  );
}

/** The error for a message nested more than {@link deepestMessage} levels deep. */
export function nestedTooDeeply(server: string): McpvalsError {
  return new McpvalsError(
    "server/protocol-error",
    `server "${server}" sent a message nested more than ${deepestMessage} levels deep`,
    { hint: "Answer with flatter data; hardly a client can handle more." },
  );
}
