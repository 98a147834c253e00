import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
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

export interface HttpLyingServer extends AsyncDisposable {
  /** At `events` it answers with a stream of events, elsewhere with JSON. */
  at(path: string): { readonly transport: "shttp"; readonly url: string };
}

/** The same over Streamable HTTP, on loopback. */
export async function lyingServerOverHttp(lie: string): Promise<HttpLyingServer> {
  const { command, args } = programOf("lying-server.mjs", [lie, "http"]);
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [port] = (await once(child.stdout, "data")) as [Buffer];
  return {
    at: (path) => ({ transport: "shttp", url: `http://127.0.0.1:${String(port).trim()}/${path}` }),
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.kill();
      await ended;
    },
  };
}
