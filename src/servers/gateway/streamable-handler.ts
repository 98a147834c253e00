import { randomUUID } from "node:crypto";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { ServerHost } from "../connections/host.ts";
import { type BodyMessages, readBody, requestOf, wiresOf } from "../messages/json-rpc.ts";
import { Lanes } from "./agent-link.ts";
import { answerError, type Door, type HttpExchange, type Room } from "./endpoint.ts";
import { HttpSession } from "./http-session.ts";

/**
 * Brings an agent's HTTP to a server that speaks messages: we are the server of Streamable HTTP. A session begins with
 * `initialize` and is one exchange with the server. Requests without a session, as in 2026-07-28, share one exchange as
 * long as their ids tell them apart.
 */
export class MessageDoor implements Door {
  readonly #room: Room;
  readonly #host: ServerHost;
  readonly #sessions = new Map<string, HttpSession>();
  readonly #lanes: Lanes<HttpSession>;

  constructor(room: Room, host: ServerHost) {
    this.#room = room;
    this.#host = host;
    this.#lanes = new Lanes(() => this.#openLane());
  }

  async handle(exchange: HttpExchange): Promise<void> {
    const { request, response } = exchange;
    if (request.method === "POST") return this.#post(exchange);
    const id = sessionOf(exchange);
    const session = id === undefined ? undefined : this.#sessions.get(id);
    if (id !== undefined && session === undefined) return unknownSession(exchange);
    if (session === undefined || (request.method !== "GET" && request.method !== "DELETE")) {
      response.setHeader("allow", session === undefined ? "POST" : "GET, POST, DELETE");
      return answerError(response, 405, { code: -32000, message: "Method not allowed." });
    }
    if (request.method === "GET") return session.get(exchange);
    session.end();
    response.writeHead(200).end();
  }

  async #post(exchange: HttpExchange): Promise<void> {
    const messages = readBody(exchange.body.toString("utf8"));
    const wires = wiresOf(messages);
    if (wires.length === 0)
      return answerError(exchange.response, 400, {
        code: -32700,
        message: "Parse error: not a JSON-RPC message",
      });
    const id = sessionOf(exchange);
    if (id === undefined) return this.#withoutSession(messages).post(exchange, messages);
    const session = this.#sessions.get(id);
    return session === undefined ? unknownSession(exchange) : session.post(exchange, messages);
  }

  #withoutSession(messages: BodyMessages): HttpSession {
    const requests = wiresOf(messages).flatMap(({ message }) => requestOf(message) ?? []);
    if (requests.some(({ method }) => method === "initialize")) return this.#openSession();
    return this.#lanes.pick(requests.map(({ id }) => id));
  }

  #openSession(): HttpSession {
    const id = randomUUID();
    const session = this.#session({ id, onEnded: () => void this.#sessions.delete(id) });
    this.#sessions.set(id, session);
    return session;
  }

  #openLane(): HttpSession {
    const lane: HttpSession = this.#session({ onEnded: () => this.#lanes.remove(lane) });
    return lane;
  }

  #session(options: { readonly id?: string; readonly onEnded: () => void }): HttpSession {
    const onLost = (error: McpvalsError): void => this.#room.onLost(error);
    return new HttpSession({ link: this.#room.connect("http"), host: this.#host, onLost, ...options });
  }
}

function sessionOf({ request }: HttpExchange): string | undefined {
  const value = request.headers["mcp-session-id"];
  return Array.isArray(value) ? value[0] : value;
}

function unknownSession({ response }: HttpExchange): void {
  answerError(response, 404, { code: -32001, message: "Session not found" });
}
