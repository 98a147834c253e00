import { randomUUID } from "node:crypto";
import type { McpvalsError } from "../../core/errors/error.ts";
import type { ServerHost } from "../connections/host.ts";
import { errorCodes, type BodyMessages, readBody, requestOf, wiresOf } from "../messages/json-rpc.ts";
import { SessionlessClients } from "./agent-connection.ts";
import { answerError, type RequestHandler, type HttpExchange, type EndpointContext } from "./endpoint.ts";
import { HttpSession } from "./http-session.ts";

/**
 * Serves Streamable HTTP to an agent, in front of a server that is reached over a channel. A session begins with `initialize`
 * and has a channel of its own. Requests without a session, as in 2026-07-28, share a channel as long as their ids differ.
 */
export class StreamableHttpHandler implements RequestHandler {
  readonly #context: EndpointContext;
  readonly #host: ServerHost;
  readonly #sessions = new Map<string, HttpSession>();
  readonly #sessionless: SessionlessClients<HttpSession>;

  constructor(context: EndpointContext, host: ServerHost) {
    this.#context = context;
    this.#host = host;
    this.#sessionless = new SessionlessClients(() => this.#openSessionless());
  }

  async handle(exchange: HttpExchange): Promise<void> {
    const { request, response } = exchange;
    if (request.method === "POST") return this.#post(exchange);
    const id = sessionOf(exchange);
    const session = id === undefined ? undefined : this.#sessions.get(id);
    if (id !== undefined && session === undefined) return unknownSession(exchange);
    if (session === undefined || (request.method !== "GET" && request.method !== "DELETE")) {
      response.setHeader("allow", session === undefined ? "POST" : "GET, POST, DELETE");
      return answerError(response, 405, { code: errorCodes.server, message: "Method not allowed." });
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
        code: errorCodes.parse,
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
    return this.#sessionless.pick(requests.map(({ id }) => id));
  }

  #openSession(): HttpSession {
    const id = randomUUID();
    const session = this.#session({ id, onEnded: () => void this.#sessions.delete(id) });
    this.#sessions.set(id, session);
    return session;
  }

  #openSessionless(): HttpSession {
    const session: HttpSession = this.#session({ onEnded: () => this.#sessionless.remove(session) });
    return session;
  }

  #session(options: { readonly id?: string; readonly onEnded: () => void }): HttpSession {
    const onLost = (error: McpvalsError): void => this.#context.onLost(error);
    return new HttpSession({
      connection: this.#context.connect("http"),
      host: this.#host,
      onLost,
      ...options,
    });
  }
}

function sessionOf({ request }: HttpExchange): string | undefined {
  const value = request.headers["mcp-session-id"];
  return Array.isArray(value) ? value[0] : value;
}

function unknownSession({ response }: HttpExchange): void {
  answerError(response, 404, { code: errorCodes.sessionNotFound, message: "Session not found" });
}
