import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { McpvalsError } from "../../core/errors/error.ts";
import { jsonExcess } from "../../core/formats/json-meter.ts";
import { deepestMessage } from "../json-rpc.ts";
import { AgentLink } from "./agent-link.ts";
import { answerError } from "./answers.ts";
import { BridgeEnd } from "./bridge-end.ts";
import { bridgeProtocol } from "./bridge-protocol.ts";
import type { Door, Room } from "./door.ts";
import type { GatewayRoute } from "./endpoint.ts";
import { MessageDoor } from "./message-door.ts";
import { HttpProxy } from "./proxy.ts";
import { readRequest } from "./read-request.ts";

/** Longest message accepted from an agent, in bytes. */
const mostBytes = 10 * 1024 * 1024;
/** Most that requests of an agent's which are not answered may have together, in bytes. */
const mostAtOnce = 64 * 1024 * 1024;

/** One server, opened to the agent of one trial. */
export class OpenedEndpoint implements Room {
  /** The only way in; nobody can guess it. */
  readonly secret: string = randomBytes(24).toString("base64url");
  readonly server: string;
  readonly #route: GatewayRoute;
  readonly #door: Door;
  readonly #links = new Set<AgentLink>();
  readonly #responses = new Set<ServerResponse>();
  readonly #bridges = new Set<BridgeEnd>();
  #clients = 0;
  /** Bytes of requests that are not answered. */
  #atOnce = 0;
  #isClosed = false;

  constructor(route: GatewayRoute) {
    const { host } = route;
    this.server = host.name;
    this.#route = route;
    // The older transport has other requests than an agent's Streamable HTTP, so only the messages can go on.
    this.#door =
      host.address?.transport === "shttp" ? new HttpProxy(this, host.address) : new MessageDoor(this, host);
  }

  connect(via: "http" | "bridge"): AgentLink {
    this.#clients += 1;
    const { emit, filters } = this.#route;
    const client = String(this.#clients);
    const onLost = (error: McpvalsError): void => this.onLost(error);
    const link = new AgentLink({ server: this.server, client, via, emit, filters, onLost });
    this.#links.add(link);
    link.ended.addEventListener("abort", () => this.#links.delete(link), { once: true });
    return link;
  }

  onLost(error: McpvalsError): void {
    if (!this.#isClosed) this.#route.onLost?.(error);
  }

  /** Answers a request over HTTP. Rejects only for a bug of ours. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#responses.add(response);
    const controller = new AbortController();
    response.once("close", () => {
      this.#responses.delete(response);
      if (!response.writableFinished) controller.abort();
    });
    let length = 0;
    const take = (bytes: number): boolean => {
      length += bytes;
      this.#atOnce += bytes;
      return length <= mostBytes && this.#atOnce <= mostAtOnce;
    };
    response.once("close", () => (this.#atOnce -= length));
    const body = await readRequest(request, take);
    if (body === undefined) {
      const most = length > mostBytes ? `${mostBytes} bytes` : `${mostAtOnce} bytes in all open requests`;
      return answerError(response, 413, { code: -32600, message: `more than ${most}` });
    }
    const excess = jsonExcess(body, { levels: deepestMessage });
    if (excess !== undefined)
      return answerError(response, 413, { code: -32600, message: `the message is too ${excess} to be read` });
    if (this.#isClosed || response.destroyed) return void response.destroy();
    await this.#door.handle({ request, response, body, signal: controller.signal });
  }

  /** Takes a bridge in. */
  bridge(socket: Duplex, head: Buffer): void {
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: ${bridgeProtocol}\r\n\r\n`,
    );
    const link = this.connect("bridge");
    const onLost = (error: McpvalsError): void => this.onLost(error);
    const end = new BridgeEnd(socket, head, { link, host: this.#route.host, limit: mostBytes, onLost });
    this.#bridges.add(end);
    socket.once("close", () => this.#bridges.delete(end));
  }

  /** Cuts everything that is open here; nothing is recorded afterwards. */
  close(): void {
    this.#isClosed = true;
    for (const link of this.#links) link.end();
    for (const response of this.#responses) response.destroy();
    for (const bridge of this.#bridges) bridge.cut();
  }
}
