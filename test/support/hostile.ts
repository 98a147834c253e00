import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { root } from "./cli.ts";

/** A server over stdio as a config names it. */
export interface FixtureServer {
  readonly transport: "stdio";
  readonly command: string;
  readonly args: string[];
}

function programOf(name: string, args: readonly string[]): FixtureServer {
  const program = join(root, "test/fixtures/servers", name);
  return { transport: "stdio", command: process.execPath, args: [program, ...args] };
}

/** A server that attacks as its arguments say; see the head of its program. */
export function hostileServer(...attack: readonly string[]): FixtureServer {
  return programOf("hostile-server.mjs", attack);
}

/** A server that lies; see its program for how. */
export function lyingServer(lie: string): FixtureServer {
  return programOf("lying-server.mjs", [lie]);
}

/** Starts a program that serves HTTP and prints its port, and gives its address; it ends with the test. */
export async function startAtPort({ command, args }: FixtureServer): Promise<string> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [port] = (await once(child.stdout, "data")) as [Buffer];
  return `http://127.0.0.1:${String(port).trim()}`;
}

/** A server that lies, over Streamable HTTP; at `/events` it answers with a stream of events, elsewhere with JSON. */
export async function lyingAddress(lie: string, path = "mcp"): Promise<{ transport: "shttp"; url: string }> {
  return {
    transport: "shttp",
    url: `${await startAtPort(programOf("lying-server.mjs", [lie, "http"]))}/${path}`,
  };
}

/** What a hostile server sends: `begin`, and then the same for as long as the client reads. */
export interface Endless {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly begin?: string;
  /** Sent repeatedly; without it nothing more comes after `begin`, and no end either unless `end` is given. */
  readonly again?: string;
  /** Bytes after which it ends, with `end`. */
  readonly bytes?: number;
  readonly end?: string;
}

export interface EndlessServer {
  readonly url: string;
  /** Requests so far: method, path and body. */
  readonly requests: readonly string[];
}

/** What an authorization server at this address says of itself. */
export function issuerMetadata(url: string): object {
  return {
    issuer: url,
    authorization_endpoint: `${url}/authorize`,
    token_endpoint: `${url}/token`,
    response_types_supported: ["code"],
  };
}

/** Starts a server on loopback that ends with the test; `answer` says what it sends. */
export async function startEndless(
  answer: (request: IncomingMessage, url: string) => Endless,
): Promise<EndlessServer> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString("utf8")));
    request.on("end", () => {
      requests.push(`${request.method} ${request.url} ${body}`);
      const { status = 200, headers, begin = "", again = "", bytes = Infinity, end } = answer(request, url);
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.write(begin === "" ? " " : begin);
      const block = again.repeat(Math.ceil(65_536 / Math.max(1, again.length)));
      let sent = 0;
      const go = (): void => {
        while (sent < bytes && !response.destroyed) {
          sent += block.length;
          if (!response.write(block)) return void response.once("drain", go);
        }
        if (end !== undefined) response.end(end);
      };
      if (block !== "") go();
      else if (end !== undefined) response.end(end);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url, requests };
}
