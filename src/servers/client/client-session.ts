import { McpvalsError } from "../../core/errors/error.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import type { ServerConnection } from "../connection.ts";
import type { Handshake } from "./handshake.ts";
import type { Sdk } from "./sdk.ts";
import { ServerCaller } from "./server-caller.ts";
import type { CallOptions, CallOutcome, ServerAbilities, ServerSession, ToolDefinition } from "../session.ts";

/** A healthy server that this process talks to itself, with the SDK's client on a recorded connection. */
export class ClientSession implements ServerSession {
  readonly name: string;
  readonly tools: readonly ToolDefinition[];
  readonly abilities: ServerAbilities;
  readonly lost: AbortSignal;
  readonly #connection: ServerConnection;
  readonly #caller: ServerCaller;
  #stopped = false;

  constructor(connection: ServerConnection, { client, tools, abilities }: Handshake, sdk: Sdk) {
    this.name = connection.name;
    this.tools = tools;
    this.abilities = abilities;
    this.lost = connection.lost;
    this.#connection = connection;
    this.#caller = new ServerCaller(client, sdk, tools);
  }

  callTool(tool: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    return this.#ask(options, () => this.#caller.callTool(tool, args, options));
  }

  readResource(uri: string, options: CallOptions): Promise<CallOutcome> {
    return this.#ask(options, () => this.#caller.readResource(uri, options));
  }

  getPrompt(name: string, args: JsonObject, options: CallOptions): Promise<CallOutcome> {
    return this.#ask(options, () => this.#caller.getPrompt(name, args, options));
  }

  list(kind: "resources" | "resourceTemplates" | "prompts", options: CallOptions): Promise<CallOutcome> {
    return this.#ask(options, () => this.#caller.list(kind, options));
  }

  stop(): Promise<void> {
    this.#stopped = true;
    return this.#connection.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #ask({ signal }: CallOptions, send: () => Promise<CallOutcome>): Promise<CallOutcome> {
    this.#throwIfOver(signal);
    const outcome = await send();
    if (outcome.kind !== "result") this.#throwIfOver(signal);
    return outcome;
  }

  /** The reasons for which a request has no outcome at all. */
  #throwIfOver(signal: AbortSignal): void {
    this.lost.throwIfAborted();
    signal.throwIfAborted();
    if (this.#stopped)
      throw new McpvalsError(
        "server/exited",
        `server "${this.name}" was stopped by us, so it gives no answer`,
      );
  }
}
