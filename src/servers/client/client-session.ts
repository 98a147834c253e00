import { McpvalsError } from "../../core/errors/error.ts";
import type { JsonObject } from "../../core/formats/model.ts";
import { settlesWithin } from "../../process/deadline.ts";
import type { ServerConnection } from "../connection.ts";
import type { Handshake } from "./handshake.ts";
import type { Sdk } from "./sdk.ts";
import { ServerCaller } from "./server-caller.ts";
import type { CallOptions, CallOutcome, ServerAbilities, ServerSession, ToolDefinition } from "../session.ts";

/** How long a server may take to show that it lives, in milliseconds. */
const aliveMs = 1000;

/** A healthy server that this process talks to itself, with the SDK's client on a recorded connection. */
export class ClientSession implements ServerSession {
  readonly name: string;
  readonly abilities: ServerAbilities;
  readonly lost: AbortSignal;
  readonly #connection: ServerConnection;
  readonly #caller: ServerCaller;
  #toolsMayDiffer = false;
  #stopped = false;

  constructor(connection: ServerConnection, { client, tools, abilities }: Handshake, sdk: Sdk) {
    this.name = connection.name;
    this.abilities = abilities;
    this.lost = connection.lost;
    this.#connection = connection;
    this.#caller = new ServerCaller(client, sdk, tools);
    client.setNotificationHandler("notifications/tools/list_changed", () => this.expireTools());
  }

  get tools(): readonly ToolDefinition[] {
    return this.#caller.tools;
  }

  async toolsNamed(name: string, options: CallOptions): Promise<readonly ToolDefinition[]> {
    if (!this.abilities.tools) return [];
    const known = this.#named(name);
    if (known.length > 0 && !this.#toolsMayDiffer) return known;
    this.#toolsMayDiffer = false;
    const outcome = await this.#ask(options, () => this.#caller.listTools(options));
    if (outcome.kind === "result") return this.#named(name);
    this.#toolsMayDiffer = true;
    const code = outcome.kind === "timeout" ? "server/call-timeout" : "server/protocol-error";
    throw new McpvalsError(code, `server "${this.name}" gives no list of its tools: ${outcome.message}`);
  }

  expireTools(): void {
    this.#toolsMayDiffer = true;
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

  async checkAlive(): Promise<void> {
    if (this.#stopped || this.lost.aborted) return;
    await settlesWithin(this.#caller.ping(aliveMs), aliveMs);
  }

  stop(): Promise<void> {
    this.#stopped = true;
    return this.#connection.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #named(name: string): readonly ToolDefinition[] {
    return this.tools.filter((tool) => tool.name === name);
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
