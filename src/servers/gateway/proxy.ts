import type { IncomingMessage } from "node:http";
import { McpvalsError } from "../../core/errors/error.ts";
import { requestOf } from "../filters/messages.ts";
import type { HttpAddress } from "../hosts/host.ts";
import { type BodyMessages, readBody, wiresOf } from "../http/body-messages.ts";
import { explainStatus, explainUnreachable } from "../http/http-errors.ts";
import { isRedirect } from "../http/server-fetch.ts";
import type { AgentLink } from "./agent-link.ts";
import { answerError } from "./answers.ts";
import type { Door, HttpExchange, Room } from "./door.ts";
import { Lanes } from "./lanes.ts";
import { passAgentBody } from "./proxy-request.ts";
import { relayResponse, requestHeaders } from "./proxy-response.ts";

/** Methods that `fetch` can pass on. */
const passed = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** One client of a server that is reached through the proxy. */
export class ProxyClient {
  readonly link: AgentLink;
  readonly #waiting = new Map<string | number, number>();

  constructor(link: AgentLink) {
    this.link = link;
  }

  isWaitingFor(id: string | number): boolean {
    return this.#waiting.has(id);
  }

  /** Notes requests that are on their way, until the result is called. */
  waitsFor(ids: readonly (string | number)[]): () => void {
    for (const id of ids) this.#waiting.set(id, (this.#waiting.get(id) ?? 0) + 1);
    return () => {
      for (const id of ids) {
        const left = (this.#waiting.get(id) ?? 1) - 1;
        if (left === 0) this.#waiting.delete(id);
        else this.#waiting.set(id, left);
      }
    };
  }
}

/** Brings an agent's HTTP to a server with an address: a reverse proxy that only looks, unless a filter changes something. */
export class HttpProxy implements Door {
  readonly #room: Room;
  readonly #address: HttpAddress;
  readonly #sessions = new Map<string, ProxyClient>();
  readonly #lanes: Lanes<ProxyClient>;

  constructor(room: Room, address: HttpAddress) {
    this.#room = room;
    this.#address = address;
    this.#lanes = new Lanes(() => this.#newClient());
  }

  async handle(exchange: HttpExchange): Promise<void> {
    const { request, response } = exchange;
    if (!passed.includes(request.method ?? "")) {
      answerError(response, 405, { code: -32000, message: "Method not allowed." });
      return;
    }
    const messages = readAgentBody(exchange);
    if (messages === undefined) {
      answerError(response, 400, { code: -32700, message: "Parse error: not a JSON-RPC message in UTF-8" });
      return;
    }
    const wires = wiresOf(messages);
    const ids = wires.flatMap(({ message }) => requestOf(message)?.id ?? []);
    const begins = wires.some(({ message }) => requestOf(message)?.method === "initialize");
    const session = headerOf(request.headers["mcp-session-id"]);
    const client = this.#clientOf({ session, begins, ids });
    const done = client.waitsFor(ids);
    response.once("close", done);
    const release = client.link.holds(() => response.destroy());
    response.once("close", release);
    const outgoing = await passAgentBody(exchange, messages, client.link);
    if (outgoing === undefined) return;
    const upstream = await this.#fetch(exchange, { body: outgoing.body, link: client.link, ids });
    if (upstream === undefined) return;
    client.link.responds(request.method ?? "GET", upstream.status, ids);
    this.#noteSession({ client, session, begins, upstream, method: request.method });
    await relayResponse(exchange, upstream, {
      link: client.link,
      room: this.#room,
      address: this.#address,
      ids: ids.filter((id) => !outgoing.dropped.includes(id)),
      answers: outgoing.answers,
    });
    if (request.method === "DELETE" && upstream.ok && session !== undefined) this.#endSession(session);
  }

  #clientOf(from: {
    readonly session: string | undefined;
    readonly begins: boolean;
    readonly ids: readonly (string | number)[];
  }): ProxyClient {
    const known = from.session === undefined ? undefined : this.#sessions.get(from.session);
    if (known !== undefined) return known;
    return from.begins ? this.#newClient() : this.#lanes.pick(from.ids);
  }

  #newClient(): ProxyClient {
    return new ProxyClient(this.#room.connect("http"));
  }

  #noteSession(from: {
    readonly client: ProxyClient;
    readonly session: string | undefined;
    readonly begins: boolean;
    readonly upstream: Response;
    readonly method: string | undefined;
  }): void {
    if (!from.begins || from.session !== undefined) return;
    const session = from.upstream.headers.get("mcp-session-id");
    if (session === null) this.#lanes.add(from.client);
    else this.#sessions.set(session, from.client);
  }

  #endSession(session: string): void {
    this.#sessions.get(session)?.link.end();
    this.#sessions.delete(session);
  }

  /** undefined: there is no response, and the agent has been told. */
  async #fetch(
    { request, response, signal }: HttpExchange,
    sending: {
      readonly body: Uint8Array;
      readonly link: AgentLink;
      readonly ids: readonly (string | number)[];
    },
  ): Promise<Response | undefined> {
    const method = request.method ?? "GET";
    const { url, fetch } = this.#address;
    try {
      const upstream = await fetch(url, {
        method,
        headers: requestHeaders(request),
        ...(hasBody(method) ? { body: Buffer.from(sending.body) } : {}),
        signal,
      });
      if (!isRedirect(upstream)) return upstream;
      // An agent that followed it would be off the record.
      await upstream.body?.cancel();
      throw explainStatus(this.#room.server, upstream, { url, method });
    } catch (error) {
      if (signal.aborted) return undefined;
      const unreachable =
        error instanceof McpvalsError ? error : explainUnreachable(this.#room.server, url.href, error);
      this.#room.onLost(unreachable);
      sending.link.responds(method, 502, sending.ids);
      answerError(response, 502, { code: -32000, message: unreachable.message });
      return undefined;
    }
  }
}

function headerOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

const nothing: BodyMessages = { kind: "other" };

/**
 * Reads what an agent says to a server with an address; undefined when that cannot be told, since the server could read it
 * in another way. The body of a method that passes on none says nothing.
 */
function readAgentBody({ request, body }: HttpExchange): BodyMessages | undefined {
  if (body.length === 0 || !hasBody(request.method)) return nothing;
  if (isEncoded(request)) return undefined;
  const messages = readBody(body.toString("utf8"));
  return messages.kind === "other" ? undefined : messages;
}

/** Whether `fetch` sends a body with it. */
function hasBody(method: string | undefined): boolean {
  return method !== undefined && method !== "GET" && method !== "HEAD";
}

/** Whether the body is packed, or in other characters than UTF-8. */
function isEncoded({ headers }: IncomingMessage): boolean {
  const packed = headers["content-encoding"] ?? "identity";
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(headers["content-type"] ?? "")?.[1] ?? "utf-8";
  return packed.toLowerCase() !== "identity" || !/^utf-?8$/i.test(charset);
}
