import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { McpvalsError } from "../../core/errors/error.ts";
import { type JsonExcess, mostMemory } from "../../core/formats/read-json.ts";

/**
 * Levels of arrays and objects that a message may have. JSON has no limit, but every program that handles a message, the SDK
 * and agents too, uses a stack that has one.
 */
export const deepestMessage = 400;

/** Messages that are not answers and that one connection may carry, so that a flood cannot fill the memory. */
export const mostUnasked = 100_000;
/** What a request counts: each keeps an answer in memory until the server reads it. */
const requestWeight = 10;

/** Whether a message is nested deeper than {@link deepestMessage}. */
export function isTooDeep(message: JSONRPCMessage): boolean {
  return hasMoreLevels(message, deepestMessage);
}

function hasMoreLevels(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item) => hasMoreLevels(item, levels - 1));
}

/** Checks the messages that one connection receives against the limits. */
export class ReceiveLimits {
  readonly #server: string;
  #unasked = 0;

  constructor(server: string) {
    this.#server = server;
  }

  /** The error for a message that goes beyond a limit; undefined for one that may pass. */
  problemOf(message: JSONRPCMessage): McpvalsError | undefined {
    if ("method" in message) this.#unasked += "id" in message ? requestWeight : 1;
    if (isTooDeep(message)) return excessive(this.#server, "deep");
    if (this.#unasked <= mostUnasked) return undefined;
    return new McpvalsError(
      "server/protocol-error",
      `server "${this.#server}" sent more than ${mostUnasked} notifications, or ${mostUnasked / requestWeight} requests, in one trial`,
      { hint: "Check whether it logs in a loop. Every message is kept in memory and in the journal." },
    );
  }
}

/** The error for a message that is too expensive to parse, or too deep. */
export function excessive(server: string, excess: JsonExcess): McpvalsError {
  if (excess === "deep")
    return new McpvalsError(
      "server/protocol-error",
      `server "${server}" sent a message nested more than ${deepestMessage} levels deep`,
      { hint: "Answer with flatter data; most clients cannot handle more." },
    );
  return new McpvalsError(
    "server/message-too-large",
    `server "${server}" sent a message of so many values that it would take more than ${mostMemory / 1024 / 1024} MiB of memory`,
    { hint: "Answer with less: with fewer lists, objects and numbers." },
  );
}

/** The error for a message longer than the limit of a server, in bytes. */
export function messageTooLarge(server: string, limit: number): McpvalsError {
  return new McpvalsError(
    "server/message-too-large",
    `server "${server}" sent a message of more than ${limit} bytes`,
    { hint: "Answer with less, or raise maxMessageBytes for that server." },
  );
}
