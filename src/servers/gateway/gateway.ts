import { maxMessageBytes, maxOpenBytes } from "../../base/limits.ts";
import { codeOf, McpvalsError, messageOf } from "../../base/error.ts";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { extname } from "node:path";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import { type JsonExcess, jsonExcess } from "../../base/read-json.ts";
import { ByteStore, LineReader } from "../../process/program-output.ts";
import type { Channel, ServerHost } from "../connections/host.ts";
import { answeredId, readBody, requestOf, type WireMessage } from "../messages/json-rpc.ts";
import { AgentConnection, answerError, type GatewayEndpoint, type GatewayRoute } from "./endpoint.ts";
import { ProxyHandler } from "./http-proxy.ts";
import { StreamableHttpHandler } from "./http-session.ts";
import { errorCodes } from "../../model/error-codes.ts";

/**
 * Creates the recording gateway: HTTP on loopback, at a free port. It listens from the first `open` until it is closed. `main` is
 * the command line's main file, which `endpoint.bridge` starts.
 */
export function createGateway({ main = ownMain() }: { readonly main?: string } = {}): Gateway {
  return new Gateway(main);
}

/** Errors of a machine whose loopback interface is down or has no address. */
const noLoopback: readonly string[] = ["ENETUNREACH", "EADDRNOTAVAIL", "EHOSTUNREACH"];

/** In a build it is beside this file. */
function ownMain(): string {
  const isSource = extname(import.meta.url) === ".ts";
  return fileURLToPath(new URL(isSource ? "../../cli/main.ts" : "./main.js", import.meta.url));
}

/** The outer side of the recording gateway: what agents outside this process can reach. */
export class Gateway {
  readonly #main: string;
  readonly #endpoints = new Map<string, AgentEndpoint>();
  readonly #upgraded = new Set<Duplex>();
  #listening: Promise<Server> | undefined;
  #isClosed = false;

  constructor(main: string) {
    this.#main = main;
  }

  /** Opens one server to the agent of one trial. Throws McpvalsError `agent/no-connection` on a machine without loopback. */
  async open(route: GatewayRoute): Promise<GatewayEndpoint> {
    if (this.#isClosed) throw new Error("the gateway is closed");
    this.#listening ??= this.#listen();
    const server = await this.#listening;
    const endpoint = new AgentEndpoint(route);
    const { secret } = endpoint;
    this.#endpoints.set(secret, endpoint);
    const { port } = server.address() as AddressInfo;
    const base = `http://127.0.0.1:${port}/${secret}`;
    return {
      server: route.host.name,
      url: `${base}/mcp`,
      bridge: {
        command: process.execPath,
        args: [this.#main, "bridge"],
        env: { [bridgeVariable]: `${base}/bridge` },
      },
      close: () => {
        this.#endpoints.delete(secret);
        endpoint.close();
        return Promise.resolve();
      },
    };
  }

  /** Ends all connections and stops listening. Never throws. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const endpoint of this.#endpoints.values()) endpoint.close();
    this.#endpoints.clear();
    for (const socket of this.#upgraded) socket.destroy();
    const server = await this.#listening?.catch(() => undefined);
    if (server === undefined) return;
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  }

  async #listen(): Promise<Server> {
    // An idle connection must not be closed while the agent sends the next request on it.
    const server = createServer({
      keepAliveTimeout: 0,
      requestTimeout: 0,
      // Some clients offer HTTP/2 in this way, and accept HTTP/1.1.
      shouldUpgradeCallback: ({ headers }) => headers.upgrade === bridgeProtocol,
    });
    server.on("request", (request, response) => this.#answer(request, response));
    server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
    let itself: Socket | undefined;
    try {
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      // Without any interface it can listen, but nothing can connect to it.
      itself = connect((server.address() as AddressInfo).port, "127.0.0.1");
      await once(itself, "connect");
      return server;
    } catch (cause) {
      server.close();
      const code = codeOf(cause) ?? "";
      if (!noLoopback.includes(code)) throw cause;
      throw new McpvalsError(
        "agent/no-connection",
        `no program can reach the servers: this machine has no connection to its own address 127.0.0.1 (${code})`,
        { hint: "Bring up its loopback interface, as `ip link set lo up` does on Linux.", cause },
      );
    } finally {
      itself?.destroy();
    }
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const endpoint = this.#find(request, "mcp");
    if (endpoint === undefined) return void response.writeHead(404).end();
    if (isForeign(request))
      return answerError(response, 403, errorCodes.server, "Forbidden: foreign Host or Origin");
    endpoint.handle(request, response).catch((error: unknown) => {
      const message = messageOf(error);
      answerError(response, 500, errorCodes.internal, `This is a bug in mcpvals: ${message}`);
    });
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#upgraded.add(socket);
    socket.once("close", () => this.#upgraded.delete(socket));
    socket.on("error", () => socket.destroy());
    const endpoint = this.#find(request, "bridge");
    if (endpoint !== undefined && !isForeign(request) && request.headers.upgrade === bridgeProtocol)
      endpoint.bridge(socket, head);
    else socket.end("HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
  }

  #find(request: IncomingMessage, kind: "mcp" | "bridge"): AgentEndpoint | undefined {
    const [path = ""] = (request.url ?? "").split("?");
    const [, secret = "", last, ...rest] = path.split("/");
    return last === kind && rest.length === 0 ? this.#endpoints.get(secret) : undefined;
  }
}

/** Whether a request was made for another host, or by a page of another origin (DNS rebinding). */
function isForeign({ headers: { host = "", origin } }: IncomingMessage): boolean {
  return !isLoopback(`http://${host}`) || (origin !== undefined && !isLoopback(origin));
}

function isLoopback(url: string): boolean {
  return URL.canParse(url) && ["127.0.0.1", "localhost", "[::1]"].includes(new URL(url).hostname);
}

/** Gives the agent of one trial access to one server. */
class AgentEndpoint {
  /** In the path of every request; it cannot be guessed. */
  readonly secret: string = randomBytes(24).toString("base64url");
  readonly #route: GatewayRoute;
  readonly #handler: ProxyHandler | StreamableHttpHandler;
  readonly #connections = new Set<AgentConnection>();
  readonly #responses = new Set<ServerResponse>();
  readonly #bridges = new Set<BridgeConnection>();
  #clients = 0;
  /** Bytes of unanswered requests. */
  #openBytes = 0;
  #isClosed = false;

  constructor(route: GatewayRoute) {
    const { host } = route;
    this.#route = route;
    const connect = (): AgentConnection => this.#connect("http");
    // Requests of Streamable HTTP mean nothing to a server of the older transport.
    this.#handler =
      host.address?.transport === "shttp"
        ? new ProxyHandler(host.name, host.address, connect)
        : new StreamableHttpHandler(host, connect);
  }

  #connect(via: "http" | "bridge"): AgentConnection {
    this.#clients += 1;
    const connection = new AgentConnection(this.#route, String(this.#clients), via);
    this.#connections.add(connection);
    connection.ended.addEventListener("abort", () => this.#connections.delete(connection), { once: true });
    return connection;
  }

  /** Answers a request over HTTP. Rejects only for a bug in mcpvals. */
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
      this.#openBytes += bytes;
      return length <= maxMessageBytes && this.#openBytes <= maxOpenBytes;
    };
    response.once("close", () => (this.#openBytes -= length));
    const body = await readRequest(request, take);
    if (body === undefined) {
      const most =
        length > maxMessageBytes ? `${maxMessageBytes} bytes` : `${maxOpenBytes} bytes in all open requests`;
      return answerError(response, 413, errorCodes.invalidRequest, `more than ${most}`);
    }
    const excess = jsonExcess(body);
    if (excess !== undefined)
      return answerError(response, 413, errorCodes.invalidRequest, tooExcessive(excess));
    if (this.#isClosed || response.destroyed) return void response.destroy();
    await this.#handler.handle({ request, response, body, signal: controller.signal });
  }

  /** Accepts the connection of a bridge. */
  bridge(socket: Duplex, head: Buffer): void {
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: ${bridgeProtocol}\r\n\r\n`,
    );
    const end = new BridgeConnection(socket, head, this.#connect("bridge"), this.#route.host);
    this.#bridges.add(end);
    socket.once("close", () => this.#bridges.delete(end));
  }

  /** Closes all connections; nothing is recorded afterwards. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#connections) connection.end();
    for (const response of this.#responses) response.destroy();
    for (const bridge of this.#bridges) bridge.cut();
  }
}

function tooExcessive(excess: JsonExcess): string {
  return `the message is too ${excess} to be read`;
}

/** Messages that may be in flight to the server before the agent has to wait. */
const maxUnsent = 64;
/** How long answers are waited for after the agent has closed its side, in milliseconds. */
const lingerMs = 1000;

/** The connection of a bridge: one message a line, both ways, over one channel to the server. */
class BridgeConnection {
  readonly #socket: Duplex;
  readonly #connection: AgentConnection;
  readonly #channel: Channel;
  readonly #reader: LineReader;
  readonly #waiting = new Set<string | number>();
  #unsent = 0;
  #linger: NodeJS.Timeout | undefined;
  #isEnded = false;

  constructor(socket: Duplex, head: Buffer, connection: AgentConnection, host: ServerHost) {
    this.#socket = socket;
    this.#connection = connection;
    this.#reader = new LineReader({
      limit: maxMessageBytes,
      onLine: (line) => this.#fromAgent(line),
      onTooLong: () => this.end(),
    });
    this.#channel = host.open({
      onMessage: (wire) => this.#fromServer(wire),
      onClosed: (reason) => this.#lose(reason),
      rateLimitNotes: (method, ids) => connection.rateLimitNotes(method, ids),
    });
    connection.onCut(() => this.end());
    socket.on("data", (chunk: Buffer) => this.#reader.push(chunk));
    socket.once("end", () => this.#agentIsDone());
    for (const event of ["close", "error"]) socket.once(event, () => this.end());
    if (head.length > 0) this.#reader.push(head);
  }

  /** Ends the connection after what has been written is sent. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#linger);
    this.#reader.stop();
    void this.#channel.close();
    this.#connection.end();
    this.#socket.end(() => this.#socket.destroy());
  }

  /** Ends the connection at once. */
  cut(): void {
    this.end();
    this.#socket.destroy();
  }

  #lose(reason: unknown): void {
    if (reason instanceof McpvalsError && !this.#isEnded) this.#connection.lose(reason);
    this.end();
  }

  #agentIsDone(): void {
    this.#reader.end();
    if (this.#waiting.size === 0) this.end();
    else this.#linger = setTimeout(() => this.end(), lingerMs);
  }

  #fromAgent(line: Buffer): void {
    const excess = jsonExcess(line);
    if (excess !== undefined) {
      const error = { code: errorCodes.invalidRequest, message: tooExcessive(excess) };
      this.#socket.write(`${JSON.stringify({ jsonrpc: "2.0", id: null, error })}\n`);
      return;
    }
    // Other lines are ignored, as any server does. Invalid UTF-8 becomes replacement characters, here and for the server.
    for (const wire of readBody(line.toString("utf8")).wires) this.#pass(wire);
  }

  #pass(wire: WireMessage): void {
    const request = requestOf(wire.message);
    if (request !== undefined) this.#waiting.add(request.id);
    this.#unsent += 1;
    if (this.#unsent >= maxUnsent) this.#socket.pause();
    const passing = this.#connection.fromAgent(wire, (decision) => {
      if (decision.kind === "pass") return this.#channel.send(decision.wire);
      if (decision.kind === "answer") this.#write(decision.wire);
      else if (decision.kind === "disconnect") this.end();
    });
    passing
      .catch((error: unknown) => this.#lose(error))
      .finally(() => {
        this.#unsent -= 1;
        if (this.#unsent < maxUnsent) this.#socket.resume();
      });
  }

  #fromServer(wire: WireMessage): void {
    const passing = this.#connection.fromServer(wire, (decision) => {
      if (decision.kind === "pass" && decision.before !== undefined) this.#write(decision.before);
      if (decision.kind === "pass" || decision.kind === "answer") this.#write(decision.wire);
      else if (decision.kind === "disconnect") this.end();
    });
    passing.catch(() => this.end());
  }

  #write(wire: WireMessage): void {
    this.#connection.recordDelivered(wire);
    this.#socket.write(`${wire.text}\n`);
    const id = answeredId(wire.message);
    if (id !== undefined) this.#waiting.delete(id);
    if (this.#linger !== undefined && this.#waiting.size === 0) this.end();
  }
}

/** The protocol that a bridge names in the `Upgrade` header. */
const bridgeProtocol = "mcpvals-bridge";

/** The variable with the URL of the gateway for a bridge. It holds a secret, which a command line would show to all users. */
const bridgeVariable = "MCPVALS_BRIDGE_URL";

/** Reads a request's body; undefined when `take` refuses that many more bytes, or the body breaks off. */
async function readRequest(
  request: IncomingMessage,
  take: (bytes: number) => boolean,
): Promise<Buffer | undefined> {
  const body = new ByteStore();
  return new Promise((resolve) => {
    const read = (chunk: Buffer): void => {
      if (take(chunk.length)) return body.push(chunk);
      request.off("data", read);
      body.clear();
      // The rest is read and dropped, so that the agent gets the answer.
      request.resume();
      resolve(undefined);
    };
    request.on("data", read);
    request.once("end", () => resolve(body.take()));
    for (const event of ["error", "close"]) request.once(event, () => resolve(undefined));
  });
}
