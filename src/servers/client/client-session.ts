import { McpvalsError } from "../../core/errors/error.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import { ToolCaller } from "./call-tool.ts";
import type { ServerConnection } from "../connection.ts";
import type { Handshake } from "./handshake.ts";
import type { Sdk } from "./sdk.ts";
import type { CallOptions, CallOutcome, ServerSession, ToolDefinition } from "../session.ts";

/** A healthy server that this process talks to itself, with the SDK's client on a recorded connection. */
export class ClientSession implements ServerSession {
  readonly name: string;
  readonly tools: readonly ToolDefinition[];
  readonly lost: AbortSignal;
  readonly #connection: ServerConnection;
  readonly #caller: ToolCaller;
  #stopped = false;

  constructor(connection: ServerConnection, { client, tools }: Handshake, sdk: Sdk) {
    this.name = connection.name;
    this.tools = tools;
    this.lost = connection.lost;
    this.#connection = connection;
    this.#caller = new ToolCaller(client, sdk);
  }

  async callTool(tool: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    this.#throwIfOver(options.signal, tool);
    const outcome = await this.#caller.call(tool, args, options);
    if (outcome.kind !== "result") this.#throwIfOver(options.signal, tool);
    return outcome;
  }

  stop(): Promise<void> {
    this.#stopped = true;
    return this.#connection.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** The reasons for which a call has no outcome at all. */
  #throwIfOver(signal: AbortSignal, tool: string): void {
    this.lost.throwIfAborted();
    signal.throwIfAborted();
    if (this.#stopped)
      throw new McpvalsError(
        "server/exited",
        `server "${this.name}" was stopped by us, so tool "${tool}" gives no answer`,
      );
  }
}
