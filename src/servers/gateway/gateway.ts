import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname } from "node:path";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import { answerError } from "./answers.ts";
import type { Gateway, GatewayEndpoint, GatewayRoute } from "./endpoint.ts";
import { bridgeProtocol, bridgeVariable, OpenedEndpoint } from "./opened-endpoint.ts";

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
