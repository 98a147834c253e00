import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { McpvalsError, messageOf } from "../base/error.ts";
import { createTokenAccess } from "./access.ts";
import { createDashboard, type DashboardOptions } from "./handler.ts";

const defaultPort = 4747;

export interface ServeOptions extends Pick<DashboardOptions, "runs" | "cwd"> {
  /** Absent: 4747, or any free one where that is taken. */
  readonly port?: number | undefined;
}

/** A dashboard that is served on this machine, to its user. */
export interface ServedDashboard extends AsyncDisposable {
  readonly port: number;
  /** The address of a page, with the token; it stays valid. */
  address(page?: string): string;
  /** The same, valid once. */
  addressForOnce(page?: string): string;
}

/** Serves the dashboard on the loopback interface. Throws `usage/invalid-option` where the port cannot be used. */
export async function serveDashboard({ runs, cwd, port: wanted }: ServeOptions): Promise<ServedDashboard> {
  const server = createServer();
  const port = await listen(server, wanted);
  const { access, token, tokenForOnce } = createTokenAccess(port);
  const dashboard = createDashboard({ runs, cwd, access });
  server.on("request", (incoming, outgoing) => {
    answer(dashboard.fetch, incoming, outgoing).catch((error: unknown) => {
      // A reader that has gone away is not an error.
      if (outgoing.headersSent) outgoing.destroy();
      else
        outgoing
          .writeHead(500, { "content-type": "text/plain", "x-content-type-options": "nosniff" })
          .end(`This is a bug in mcpvals: ${messageOf(error)}`);
    });
  });
  const addressWith = (given: string, page: string): string =>
    `http://127.0.0.1:${port}/?token=${given}${page === "" ? "" : `#${page}`}`;
  return {
    port,
    address: (page = "") => addressWith(token, page),
    addressForOnce: (page = "") => addressWith(tokenForOnce(), page),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
      await dashboard[Symbol.asyncDispose]();
    },
  };
}

async function listen(server: Server, wanted: number | undefined): Promise<number> {
  try {
    await listenAt(server, wanted ?? defaultPort);
  } catch (cause) {
    if (wanted !== undefined)
      throw new McpvalsError("usage/invalid-option", `port ${wanted} cannot be used: ${messageOf(cause)}`, {
        hint: "Give another one, or leave --port out for any that is free.",
        cause,
      });
    await listenAt(server, 0);
  }
  return (server.address() as AddressInfo).port;
}

async function listenAt(server: Server, port: number): Promise<void> {
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
}

async function answer(
  fetch: (request: Request) => Promise<Response>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  outgoing.once("close", () => gone.abort());
  const { method = "GET", url = "/", headers } = incoming;
  const sent = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  );
  let request: Request;
  try {
    // Joined as texts, since `//host/path` would name another host.
    const { port } = incoming.socket.address() as AddressInfo;
    const address = `http://127.0.0.1:${port}${url.startsWith("/") ? url : "/"}`;
    request = new Request(address, { method, headers: sent, signal: gone.signal });
  } catch {
    outgoing.writeHead(400, { "content-type": "text/plain" }).end("Invalid HTTP request.");
    return;
  }
  const response = await fetch(request);
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null) outgoing.end();
  else await pipeline(Readable.fromWeb(response.body), outgoing);
}
