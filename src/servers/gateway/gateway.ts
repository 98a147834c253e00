import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname } from "node:path";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import { McpvalsError } from "../../core/errors/error.ts";
import { jsonExcess } from "../../core/formats/read-json.ts";
import { ByteStore, LineReader } from "../../process/program-output.ts";
import type { Channel, ServerHost } from "../connections/host.ts";
import { answeredId, readBody, requestOf, type WireMessage, wiresOf } from "../messages/json-rpc.ts";
import { deepestMessage } from "../messages/message-limits.ts";
import { AgentLink } from "./agent-link.ts";
import {
  answerError,
  type Door,
  type Gateway,
  type GatewayEndpoint,
  type GatewayRoute,
  type Room,
} from "./endpoint.ts";
import { HttpProxy } from "./http-proxy.ts";
import { MessageDoor } from "./streamable-handler.ts";

export interface GatewayOptions {
  /** Absolute path of the command line's main file, which `endpoint.bridge` starts. Default: the one of this package. */
  readonly main?: string;
}

/**
 * Makes the outer side of the recording gateway: HTTP on loopback, at a port of the system's choice. It listens from the
 * first `open` on, until it is closed.
 */
export function createGateway(options: GatewayOptions = {}): Gateway {
  return new LoopbackGateway(options.main ?? ownMain());
}

/** Beside us in a build, and where it is written otherwise. */
function ownMain(): string {
  const isSource = extname(import.meta.url) === ".ts";
  return fileURLToPath(new URL(isSource ? "../../cli/main.ts" : "./main.js", import.meta.url));
}

class LoopbackGateway implements Gateway {
  readonly #main: string;
  readonly #endpoints = new Map<string, OpenedEndpoint>();
  readonly #upgraded = new Set<Duplex>();
  #listening: Promise<Server> | undefined;
  #isClosed = false;

  constructor(main: string) {
    this.#main = main;
  }

  async open(route: GatewayRoute): Promise<GatewayEndpoint> {
    if (this.#isClosed) throw new Error("the gateway is closed");
    this.#listening ??= this.#listen();
    const server = await this.#listening;
    const endpoint = new OpenedEndpoint(route);
    const { secret } = endpoint;
    this.#endpoints.set(secret, endpoint);
    const base = `http://127.0.0.1:${portOf(server)}/${secret}`;
    return {
      server: endpoint.server,
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

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const endpoint of this.#endpoints.values()) endpoint.close();
    this.#endpoints.clear();
    for (const socket of this.#upgraded) socket.destroy();
    const server = await this.#listening?.catch(() => undefined);
    if (server === undefined) return;
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    server.closeAllConnections();
    await closed;
  }

  #listen(): Promise<Server> {
    // A connection that an agent keeps stays until we close: it must not go while a request is on its way.
    const server = createServer({
      keepAliveTimeout: 0,
      requestTimeout: 0,
      // Some clients ask for HTTP/2 in this way, and take HTTP/1.1 as well.
      shouldUpgradeCallback: ({ headers }) => headers.upgrade === bridgeProtocol,
    });
    server.on("request", (request, response) => this.#answer(request, response));
    server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(0, "127.0.0.1", () => {
        server.off("error", reject);
        resolve(server);
      });
    });
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const endpoint = this.#find(request, "mcp");
    if (endpoint === undefined) {
      response.writeHead(404).end();
      return;
    }
    if (isForeign(request)) {
      answerError(response, 403, { code: -32000, message: "Forbidden: foreign Host or Origin" });
      return;
    }
    endpoint.handle(request, response).catch((error: unknown) => {
      const message = error instanceof Error ? error.message : String(error);
      answerError(response, 500, { code: -32603, message: `This is a bug in mcpvals: ${message}` });
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

  #find(request: IncomingMessage, door: "mcp" | "bridge"): OpenedEndpoint | undefined {
    const [path = ""] = (request.url ?? "").split("?");
    const [, secret = "", last, ...rest] = path.split("/");
    return last === door && rest.length === 0 ? this.#endpoints.get(secret) : undefined;
  }
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

const loopback = ["127.0.0.1", "localhost", "[::1]"];

/**
 * Whether a request was made for another address, or by a page of another site: a browser that was led here by a name of
 * somebody else's (DNS rebinding).
 */
function isForeign({ headers }: IncomingMessage): boolean {
  return (
    !isLoopback(`http://${headers.host ?? ""}`) ||
    (headers.origin !== undefined && !isLoopback(headers.origin))
  );
}

function isLoopback(url: string): boolean {
  return URL.canParse(url) && loopback.includes(new URL(url).hostname);
}

/** Longest message accepted from an agent, in bytes. */
const mostBytes = 10 * 1024 * 1024;
/** Most that requests of an agent's which are not answered may have together, in bytes. */
const mostAtOnce = 64 * 1024 * 1024;

/** One server, opened to the agent of one trial. */
class OpenedEndpoint implements Room {
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

export interface BridgeEndOptions {
  readonly link: AgentLink;
  readonly host: ServerHost;
  /** Longest line of an agent's, in bytes. */
  readonly limit: number;
  /** The server did what no exchange with it survives. */
  readonly onLost: (error: McpvalsError) => void;
}

/** Messages that may be on their way to the server before the agent has to wait. */
const mostUnsent = 64;
/** How long an agent that says no more may wait for what it has asked, in milliseconds. */
const lingerMs = 1000;

/** Our end of a bridge: one message a line, both ways, over one exchange with the server. */
class BridgeEnd {
  readonly #socket: Duplex;
  readonly #options: BridgeEndOptions;
  readonly #channel: Channel;
  readonly #reader: LineReader;
  readonly #waiting = new Set<string | number>();
  #unsent = 0;
  #linger: NodeJS.Timeout | undefined;
  #isEnded = false;

  constructor(socket: Duplex, head: Buffer, options: BridgeEndOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#reader = new LineReader({
      limit: options.limit,
      onLine: (line) => this.#fromAgent(line),
      onTooLong: () => this.end(),
    });
    this.#channel = options.host.open({
      onMessage: (wire) => this.#fromServer(wire),
      onClosed: (reason) => this.#lose(reason),
    });
    options.link.holds(() => this.end());
    socket.on("data", (chunk: Buffer) => this.#reader.push(chunk));
    socket.once("end", () => this.#agentIsDone());
    socket.once("close", () => this.end());
    socket.once("error", () => this.end());
    if (head.length > 0) this.#reader.push(head);
  }

  /** Ends the exchange and lets the bridge go, after what has been written. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#linger);
    this.#reader.stop();
    void this.#channel.close();
    this.#options.link.end();
    this.#socket.end(() => this.#socket.destroy());
  }

  /** Ends the exchange, whatever has not been read. */
  cut(): void {
    this.end();
    this.#socket.destroy();
  }

  #lose(reason: unknown): void {
    if (reason instanceof McpvalsError && !this.#isEnded) this.#options.onLost(reason);
    this.end();
  }

  #agentIsDone(): void {
    this.#reader.end();
    if (this.#waiting.size === 0) this.end();
    else this.#linger = setTimeout(() => this.end(), lingerMs);
  }

  #fromAgent(line: Buffer): void {
    const excess = jsonExcess(line, { levels: deepestMessage });
    if (excess !== undefined) {
      const error = { code: -32600, message: `the message is too ${excess} to be read` };
      this.#socket.write(`${JSON.stringify({ jsonrpc: "2.0", id: null, error })}\n`);
      return;
    }
    // What is no message goes nowhere, as with any server: there is nothing to answer to. Bytes that are no UTF-8 become
    // characters that say so, here and for the server.
    for (const wire of wiresOf(readBody(line.toString("utf8")))) this.#pass(wire);
  }

  #pass(wire: WireMessage): void {
    const request = requestOf(wire.message);
    if (request !== undefined) this.#waiting.add(request.id);
    this.#unsent += 1;
    if (this.#unsent >= mostUnsent) this.#socket.pause();
    const passing = this.#options.link.fromAgent(wire, (passage) => {
      if (passage.kind === "pass") return this.#channel.send(passage.wire);
      if (passage.kind === "answer") this.#write(passage.wire);
      else if (passage.kind === "disconnect") this.end();
    });
    passing
      .catch((error: unknown) => this.#lose(error))
      .finally(() => {
        this.#unsent -= 1;
        if (this.#unsent < mostUnsent) this.#socket.resume();
      });
  }

  #fromServer(wire: WireMessage): void {
    const passing = this.#options.link.fromServer(wire, (passage) => {
      if (passage.kind === "pass" || passage.kind === "answer") this.#write(passage.wire);
      else if (passage.kind === "disconnect") this.end();
    });
    passing.catch(() => this.end());
  }

  #write(wire: WireMessage): void {
    this.#options.link.delivers(wire);
    this.#socket.write(`${wire.text}\n`);
    const id = answeredId(wire.message);
    if (id !== undefined) this.#waiting.delete(id);
    if (this.#linger !== undefined && this.#waiting.size === 0) this.end();
  }
}

/** What a bridge asks to speak, in the `Upgrade` header. */
const bridgeProtocol = "mcpvals-bridge";

/** The variable that tells a bridge where the gateway is. It holds a secret, which a command line would show to everybody. */
const bridgeVariable = "MCPVALS_BRIDGE_URL";

/** Reads a request's body; undefined when `take` refuses so many more bytes, or it does not come to its end. */
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
      // What comes yet is read and forgotten, so that the agent hears why.
      request.resume();
      resolve(undefined);
    };
    request.on("data", read);
    request.once("end", () => resolve(body.take()));
    request.once("error", () => resolve(undefined));
    request.once("close", () => resolve(undefined));
  });
}
